#include "fetch/questions.h"

#include <gtest/gtest.h>

#include <string>

namespace llmd::fetch {
namespace {

class QuestionsTest : public ::testing::Test {
 protected:
  uint64_t ask() {
    const schedule::Signal resume(std::make_shared<std::function<void()>>([this] { ++woken_; }));
    return questions_.ask(resume, clock_.now()).value_or(0);
  }
  void answer(uint64_t ticket, std::string text) {
    questions_.answer(ticket, std::move(text), clock_.now());
  }

  ManualClock clock_;
  Questions<std::string> questions_{2};
  int woken_ = 0;
};

TEST_F(QuestionsTest, AnAnswerWakesOnceAndIsTakenOnce) {
  const uint64_t ticket = ask();
  EXPECT_NE(ticket, 0u);
  EXPECT_EQ(questions_.take(ticket), std::nullopt);
  answer(ticket, "yes");
  EXPECT_EQ(woken_, 1);
  EXPECT_EQ(questions_.take(ticket), "yes");
  EXPECT_EQ(questions_.take(ticket), std::nullopt);
  answer(ticket, "late");
  EXPECT_EQ(woken_, 1);
}

TEST_F(QuestionsTest, TooManyAreRefused) {
  const uint64_t first = ask();
  EXPECT_NE(ask(), first);
  EXPECT_EQ(ask(), 0u);
  answer(first, "yes");
  EXPECT_EQ(questions_.take(first), "yes");
  EXPECT_NE(ask(), 0u);
}

TEST_F(QuestionsTest, AnAnswerThatNobodyTakesMakesRoomAfterAWhile) {
  const uint64_t first = ask();
  ask();  // stays open
  answer(first, "yes");
  EXPECT_EQ(ask(), 0u);
  clock_.advance(Questions<std::string>::kKept + Nanos{1});
  EXPECT_NE(ask(), 0u);
  EXPECT_EQ(questions_.take(first), std::nullopt);
  EXPECT_EQ(ask(), 0u);
}

}  // namespace
}  // namespace llmd::fetch
