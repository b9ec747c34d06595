#include "render/local_service.h"

#include "text/testing/tiny_model.h"
#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include <future>
#include <string>

namespace llmd::render {
namespace {

constexpr std::string_view kChat = R"({"messages":[{"role":"u","content":"x"}]})";

schedule::Signal signal(std::function<void()> call) {
  return schedule::Signal(std::make_shared<std::function<void()>>(std::move(call)));
}

class LocalServiceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!text::kAvailable) GTEST_SKIP() << "built without a Rust toolchain";
  }
  std::shared_ptr<PromptRenderer> open(LocalService& service, size_t cache_bytes = 1 << 20) {
    auto opened = service.of({model.folder(), cache_bytes});
    EXPECT_TRUE(opened) << opened.error().message;
    return *opened;
  }
  static Question chat(std::string_view body = kChat) {
    return {.chat = true, .body = std::string(body), .timeout = std::chrono::seconds(1)};
  }

  text::testing::TinyModel model;
  ManualClock clock;
  metric::Registry metrics{1};
};

TEST_F(LocalServiceTest, AnswersOnAThreadOfItsOwn) {
  LocalService service(2, real_clock(), metrics);
  const auto renderer = open(service);
  std::promise<std::thread::id> woken;
  const auto ticket =
      renderer->ask(chat(), signal([&] { woken.set_value(std::this_thread::get_id()); }));
  ASSERT_TRUE(ticket);
  EXPECT_TRUE(woken.get_future().get() != std::this_thread::get_id());
  const auto prompts = renderer->take(*ticket);
  ASSERT_TRUE(prompts) << prompts.error().message;
  ASSERT_EQ(prompts->size(), 1u);
  EXPECT_EQ((*prompts)[0].token_ids.front(), text::testing::TinyModel::kStart);
  EXPECT_FALSE(renderer->take(*ticket)) << "only once";
  EXPECT_TRUE(metrics.render().contains("llmd_render_calls_total{result=\"answered\"} 1"));
}

TEST_F(LocalServiceTest, SaysWhatCannotBeRendered) {
  LocalService service(0, clock, metrics);
  const auto renderer = open(service);
  const auto ticket = renderer->ask(chat("{}"), {});
  EXPECT_TRUE(service.run_one());
  EXPECT_FALSE(service.run_one());
  EXPECT_TRUE(
      renderer->take(*ticket).error().message.starts_with("the body is not such a request"));
  EXPECT_TRUE(metrics.render().contains("llmd_render_calls_total{result=\"failed\"} 1"));
}

TEST_F(LocalServiceTest, LeavesWorkThatIsTooLate) {
  LocalService service(0, clock, metrics);
  const auto renderer = open(service);
  const auto ticket = renderer->ask(chat(), {});
  clock.advance(std::chrono::seconds(2));
  EXPECT_TRUE(service.run_one());
  EXPECT_EQ(renderer->take(*ticket).error().message, "no answer in time");
}

TEST_F(LocalServiceTest, BoundsWhatWaits) {
  LocalService service(0, clock, metrics);
  const auto renderer = open(service);
  const auto refusal = [](const Result<uint64_t>& asked) {
    return asked ? "" : asked.error().message;
  };
  for (size_t i = 0; i < LocalService::kQuestionsMax; ++i) ASSERT_TRUE(renderer->ask(chat(), {}));
  EXPECT_EQ(refusal(renderer->ask(chat(), {})), "too many prompts are being rendered");

  LocalService other(0, clock, metrics);
  const auto large = open(other);
  const std::string body(LocalService::kWaitingBytesMax / 4, 'x');
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(large->ask(chat(body), {}));
  EXPECT_EQ(refusal(large->ask(chat(), {})), "too many prompts are being rendered");
  EXPECT_TRUE(other.run_one());
  EXPECT_EQ(refusal(large->ask(chat(), {})), "");
}

TEST_F(LocalServiceTest, EndsWithWorkThatWaits) {
  LocalService service(0, clock, metrics);
  const auto renderer = open(service);
  ASSERT_TRUE(renderer->ask(chat(), {}));
  service.stop();
  EXPECT_FALSE(service.run_one());
  EXPECT_FALSE(renderer->ask(chat(), {}));
}

TEST_F(LocalServiceTest, SharesTokenizersWhileTheirFilesStay) {
  LocalService service(0, clock, metrics);
  const auto first = open(service);
  const auto answer = [&](PromptRenderer& renderer) {
    const auto ticket = renderer.ask(chat(), {});
    EXPECT_TRUE(service.run_one());
    return renderer.take(*ticket)->at(0).token_ids.size();
  };
  const size_t tokens = answer(*first);
  model.write("chat_template.jinja", "y");
  EXPECT_EQ(answer(*open(service)), 1u);
  EXPECT_EQ(answer(*first), tokens) << "as it was opened";
  const auto error = service.of({"/nowhere", 0}).error().message;
  EXPECT_TRUE(error.starts_with("/nowhere")) << error;
}

}  // namespace
}  // namespace llmd::render
