#include "change_queue.h"

#include "commands.h"

#include "redis/testing.h"

#include <gtest/gtest.h>

#include <string>

namespace llmd::kv_shared {
namespace {

class ChangeQueueTest : public ::testing::Test, protected redis::testing::ScriptedServer {
 protected:
  static constexpr size_t kBytesMax = 2000;

  ChangeQueueTest() { queue_.set_client(*client_); }

  static std::string command(std::string_view word) {
    std::string out;
    redis::append_command(out, {word});
    return out;
  }
  static std::string page(std::string_view pod, std::string_view cursor) {
    std::string out;
    append_clear_page(out, pod, cursor);
    return out;
  }
  void change(std::string_view word, const std::string& pod = "pod") {
    queue_.push({.pod = pod, .commands = command(word), .count = 1});
  }

  ChangeQueue queue_{loop, kBytesMax, {}};
  std::unique_ptr<redis::Client> client_ =
      client([this](bool up, std::string_view) { up ? queue_.on_up() : queue_.on_down(); });
};

TEST_F(ChangeQueueTest, SendsInOrderWithoutWaitingForReplies) {
  change("first");
  welcome(*client_);
  change("second");
  queue_.push({.pod = "pod", .commands = command("third") + command("fourth"), .count = 2});
  expect(command("first") + command("second") + command("third") + command("fourth"));
}

TEST_F(ChangeQueueTest, SendsAgainWhatWasNotConfirmed) {
  welcome(*client_);
  change("first");
  queue_.push({.pod = "pod", .commands = command("second") + command("third"), .count = 2});
  change("fourth");
  expect(command("first") + command("second") + command("third") + command("fourth"));
  answer("+OK\r\n+OK\r\n");
  connection.reset();
  until([&] { return !client_->up(); });
  welcome(*client_);
  expect(command("second") + command("third") + command("fourth"));
}

TEST_F(ChangeQueueTest, ClearsPageByPageBeforeItGoesOn) {
  welcome(*client_);
  change("first");
  queue_.push({.pod = "pod", .commands = {}});
  change("second");
  expect(command("first") + page("pod", "0"));
  answer("+OK\r\n$2\r\n17\r\n");
  expect(page("pod", "17"));
  connection.reset();
  until([&] { return !client_->up(); });
  welcome(*client_);
  expect(page("pod", "0"));  // from the start
  answer("$1\r\n0\r\n");
  expect(command("second"));
}

TEST_F(ChangeQueueTest, GoesOnAfterARefusal) {
  welcome(*client_);
  queue_.push({.pod = "pod", .commands = {}});
  change("second");
  expect(page("pod", "0"));
  answer("-OOM command not allowed\r\n");
  expect(command("second"));
  answer("-READONLY\r\n");
  change("third");
  expect(command("third"));
}

TEST_F(ChangeQueueTest, ClearsPodsOfWhichChangesWereLost) {
  change(std::string(kBytesMax / 2, 'x'), "one");
  change(std::string(kBytesMax / 2, 'y'), "two");
  change("later", "one");
  welcome(*client_);
  expect(page("one", "0"));
  answer("$1\r\n0\r\n");
  expect(page("two", "0"));
  answer("$1\r\n0\r\n");
  expect(command("later"));
}

}  // namespace
}  // namespace llmd::kv_shared
