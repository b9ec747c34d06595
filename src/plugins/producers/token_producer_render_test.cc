#include "render/prompt_renderer.h"
#include "schedule/testing.h"

#include <gtest/gtest.h>

#include <map>

namespace llmd::plugins {

const plugin::Descriptor& token_producer();

namespace {

using request::Api;
using request::Piece;
using schedule::Progress;
using schedule::testing::Harness;

constexpr std::string_view kRender = "modelName: base\nvllm: {url: 'http://render:8000/'}\n";

/// Answers when the test says so.
struct FakeRenderer final : render::PromptRenderer {
  Result<uint64_t> ask(render::Question question, schedule::Signal resume) override {
    if (!refusal.empty()) return fail(Code::kServiceUnavailable, refusal);
    asked.push_back(std::move(question));
    wake = std::move(resume);
    return asked.size();
  }
  render::Rendered take(uint64_t ticket) override {
    EXPECT_EQ(ticket, asked.size());
    return answer;
  }

  void warm_up(const render::WarmUp& of) override { warm.push_back(of); }

  std::vector<render::WarmUp> warm;
  std::string refusal;
  std::vector<render::Question> asked;
  schedule::Signal wake;
  render::Rendered answer = {};
};

/// A request and the plugin that has it rendered.
struct Bench {
  explicit Bench(std::string_view parameters = kRender) {
    using Slot = render::PromptRendererSlot;
    harness.state.get<Slot>(Slot::kName, [this] {
      return new Slot{.of_server =
                          [this](fleet::EndpointSpec its) {
                            server = its.scheme + "://" + its.name;
                            return renderer;
                          },
                      .of_model =
                          [this](const render::LocalModel& its) {
                            model = its;
                            return renderer;
                          }};
    });
    harness.context.make_resume = [this] {
      return schedule::Signal(std::make_shared<std::function<void()>>([this] { ++woken; }));
    };
    producer = &harness.make<schedule::Producer>(token_producer(), parameters);
  }

  /// Of one text prompt, unless the test changes `view`.
  void request(Api api, std::string_view body) {
    view.api = api;
    view.prompts = prompts;
    if (const size_t at = body.find("\"old\""); at != body.npos) view.model_value = {at, at + 5};
    harness.context.request = &view;
    harness.context.body = body;
  }
  Result<Progress> produce() { return producer->produce(harness.context); }
  std::span<const request::Prompt> after() const { return harness.context.request->prompts; }

  Harness harness{1};
  std::shared_ptr<FakeRenderer> renderer = std::make_shared<FakeRenderer>();
  std::string server;        // that was asked for
  render::LocalModel model;  // the same
  int woken = 0;
  const schedule::Producer* producer = nullptr;
  std::vector<Piece> pieces{{.text = "what is it?", .bytes = 11}};
  std::vector<request::Prompt> prompts{{.pieces = pieces}};
  request::RequestView view;
};

TEST(TokenProducerRender, WaitsForTheTokensOfTheServer) {
  Bench bench;
  bench.request(Api::kChat, R"({"model":"old","messages":[]})");
  ASSERT_EQ(bench.produce(), Progress::kSuspended);
  ASSERT_EQ(bench.renderer->asked.size(), 1u);
  const auto& question = bench.renderer->asked[0];
  EXPECT_EQ(bench.server, "http://render:8000");
  EXPECT_TRUE(question.chat);
  EXPECT_EQ(question.body, R"({"model":"base","messages":[]})");
  EXPECT_EQ(question.timeout, std::chrono::seconds(5));
  bench.renderer->wake();
  EXPECT_EQ(bench.woken, 1);

  bench.renderer->answer = {
      {{.token_ids = {7, 8, 9}, .media = {{request::Modality::kImage, "hash", 1, 2}}}}};
  ASSERT_EQ(bench.produce(), Progress::kDone);
  ASSERT_EQ(bench.after().size(), 1u);
  EXPECT_TRUE(std::ranges::equal(bench.after()[0].token_ids, std::vector<uint32_t>{7, 8, 9}));
  EXPECT_TRUE(bench.after()[0].pieces.empty());
  ASSERT_EQ(bench.after()[0].media.size(), 1u);
  EXPECT_EQ(bench.after()[0].media[0].hash, "hash");
  EXPECT_EQ(bench.after()[0].media[0].offset, 1u);
  // A further try has its tokens.
  EXPECT_EQ(bench.produce(), Progress::kDone);
  EXPECT_EQ(bench.renderer->asked.size(), 1u);
}

TEST(TokenProducerRender, AsksForTextsWithoutAModel) {
  Bench bench;
  bench.request(Api::kCompletions, R"( {"prompt":"what is it?"})");
  ASSERT_EQ(bench.produce(), Progress::kSuspended);
  EXPECT_FALSE(bench.renderer->asked[0].chat);
  EXPECT_EQ(bench.renderer->asked[0].body, R"( {"model":"base","prompt":"what is it?"})");
}

TEST(TokenProducerRender, AsksATokenizerOfThisProcess) {
  Bench bench("local: {path: /models/base, timeout: 2s, cacheBytes: 1000}\n");
  EXPECT_EQ(bench.model.path, "/models/base");
  EXPECT_EQ(bench.model.cache_bytes_max, 1000u);
  EXPECT_EQ(bench.server, "");
  bench.request(Api::kChat, R"({"model":"old","messages":[]})");
  ASSERT_EQ(bench.produce(), Progress::kSuspended);
  EXPECT_EQ(bench.renderer->asked[0].body, R"({"model":"old","messages":[]})");
  EXPECT_EQ(bench.renderer->asked[0].timeout, std::chrono::seconds(2));
  EXPECT_EQ(bench.producer->deadline(), std::chrono::seconds(2));
}

TEST(TokenProducerRender, AsksForMessagesAsAChat) {
  Bench bench;
  bench.request(
      Api::kMessages,
      R"({"model":"old","system":"Be brief.","messages":[{"role":"user","content":"hi"}]})");
  ASSERT_EQ(bench.produce(), Progress::kSuspended);
  EXPECT_TRUE(bench.renderer->asked[0].chat);
  EXPECT_EQ(bench.renderer->asked[0].body,
            R"({"model":"base","messages":[{"role":"system","content":"Be brief."},)"
            R"({"role":"user","content":"hi"}]})");
}

TEST(TokenProducerRender, LeavesAStageInTheTrace) {
  Bench bench;
  bench.request(Api::kChat, R"({"model":"old"})");
  auto& c = bench.harness.context;
  trace::Trace trace(c.arena, c.rng, c.clock, {.trace_low = 1, .span = 1}, 0, "request");
  c.trace = &trace;
  const TimePoint asked = c.clock.now();
  ASSERT_EQ(bench.produce(), Progress::kSuspended);
  bench.harness.clock.advance(std::chrono::milliseconds(7));
  bench.renderer->answer = {{{.token_ids = {7}, .media = {}}}};
  {
    const trace::Stage stage(&trace, "producer", trace::Scope::kPlugins);
    ASSERT_EQ(bench.produce(), Progress::kDone);
  }
  const auto* span = trace.first()->next->next;
  EXPECT_EQ(span->name, "tokenize_render /v1/chat/completions/render");
  EXPECT_EQ(span->parent_id, 1u);
  EXPECT_EQ(span->begin, asked);
  EXPECT_EQ(span->end - span->begin, std::chrono::milliseconds(7));
}

TEST(TokenProducerRender, HasTheServerWarmedUp) {
  Bench bench("modelName: base\nvllm: {url: 'http://render:8000/', timeout: 1s, mmTimeout: 7s}\n");
  ASSERT_EQ(bench.renderer->warm.size(), 1u);
  EXPECT_EQ(bench.renderer->warm[0].model, "base");
  EXPECT_EQ(bench.renderer->warm[0].timeout, std::chrono::seconds(1));
  EXPECT_EQ(bench.renderer->warm[0].media_timeout, std::chrono::seconds(7));
}

TEST(TokenProducerRender, GivesMediaMoreTime) {
  Bench bench("modelName: base\nvllm: {timeout: 1s, mmTimeout: 7s}\n");
  bench.pieces.push_back({.kind = Piece::Kind::kPlaceholder, .count = 4});
  bench.prompts[0].pieces = bench.pieces;
  bench.request(Api::kChat, "{}");
  ASSERT_EQ(bench.produce(), Progress::kSuspended);
  EXPECT_EQ(bench.renderer->asked[0].timeout, std::chrono::seconds(7));
  EXPECT_EQ(bench.producer->deadline(), std::chrono::seconds(7));
}

TEST(TokenProducerRender, LeavesTokenIdsOfClients) {
  Bench bench;
  const std::vector<uint32_t> ids = {1, 2};
  bench.prompts[0] = {.token_ids = ids};
  bench.request(Api::kCompletions, "{}");
  EXPECT_EQ(bench.produce(), Progress::kDone);
  EXPECT_TRUE(bench.renderer->asked.empty());
}

TEST(TokenProducerRender, GoesOnWithTheEstimateWhereRenderingFails) {
  Bench bench;
  bench.request(Api::kChat, R"({"model":"old"})");
  ASSERT_EQ(bench.produce(), Progress::kSuspended);
  bench.renderer->answer = fail(Code::kServiceUnavailable, "status 500: broken");
  const auto failed = bench.produce();
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().message, "status 500: broken");
  EXPECT_EQ(bench.after()[0].pieces[0].text, "what is it?");
  EXPECT_EQ(bench.produce(), Progress::kDone) << "once a request";
}

TEST(TokenProducerRender, RefusesAnswersForOtherPrompts) {
  Bench bench;
  bench.request(Api::kCompletions, "{}");
  ASSERT_EQ(bench.produce(), Progress::kSuspended);
  bench.renderer->answer = std::vector<render::RenderedPrompt>(2);
  EXPECT_FALSE(bench.produce());
  EXPECT_EQ(bench.after().size(), 1u);
}

TEST(TokenProducerRender, SaysWhatItCannotRender) {
  Bench bench;
  bench.request(Api::kResponses, "{}");
  EXPECT_EQ(bench.produce().error().message, "prompts of responses cannot be rendered");
  Bench busy;
  busy.renderer->refusal = "too many prompts are being rendered";
  busy.request(Api::kChat, "{}");
  EXPECT_EQ(busy.produce().error().message, busy.renderer->refusal);
}

TEST(TokenProducerRender, RendersNothingWithoutAModelName) {
  Bench bench("");
  bench.request(Api::kChat, "{}");
  EXPECT_EQ(bench.produce(), Progress::kDone);
  const auto error = [](std::string_view parameters) {
    const auto made = Harness(1).try_make(token_producer(), parameters);
    return made ? "" : made.error().message;
  };
  EXPECT_TRUE(error("vllm: {}\n").contains("parameter 'vllm' needs 'modelName'"));
  EXPECT_TRUE(error("modelName: m\nvllm: {url: 'ftp://x'}\n").contains("vllm.url"));
  EXPECT_TRUE(error("modelName: m\nvllm: {timeout: 0s}\n").contains("timeout"));
  EXPECT_TRUE(error("modelName: m\nestimate: {}\n").contains("give one of 'estimate'"));
  EXPECT_TRUE(error("local: {path: x}\nestimate: {}\n").contains("give one of 'estimate'"));
  EXPECT_TRUE(error("local: {}\n").contains("parameter 'local.path' is missing"));
  EXPECT_TRUE(error("vllm: {}\nlocal: {path: x}\n").contains("give one of 'vllm', 'local' and"));
  EXPECT_TRUE(error("udsTokenizerConfig: {}\n").contains("'udsTokenizerConfig' needs 'modelName'"));
  EXPECT_TRUE(error("modelName: m\nudsTokenizerConfig: {}\nvllm: {}\n").contains("give one of"));
  EXPECT_TRUE(error("modelName: m\nudsTokenizerConfig: {useTCP: true, socketFile: 'a:b:c'}\n")
                  .contains("udsTokenizerConfig.socketFile"));
  EXPECT_TRUE(error("modelName: qwen\nudsTokenizerConfig: {modelTokenizerMap: {qwen3: /m}}\n")
                  .contains("has no 'qwen' (did you mean 'qwen3'?)"));
}

TEST(TokenProducerRender, AsksATokenizationService) {
  Bench bench(
      "modelName: base\nudsTokenizerConfig: {modelTokenizerMap: {base: /m/tokenizer.json}}\n");
  EXPECT_EQ(bench.server, "unix:///tmp/tokenizer/tokenizer-uds.socket");
  ASSERT_EQ(bench.renderer->warm.size(), 1u);
  EXPECT_EQ(bench.renderer->warm[0].model, "/m");
  bench.request(Api::kChat, R"({"model":"old","messages":[]})");
  EXPECT_EQ(bench.produce(), Progress::kSuspended);
  EXPECT_EQ(bench.renderer->asked[0].body, R"({"model":"/m","messages":[]})");
  EXPECT_EQ(bench.renderer->asked[0].timeout, std::chrono::seconds(5));
  EXPECT_EQ(
      Bench("modelName: base\nudsTokenizerConfig: {useTCP: true, socketFile: 'host:5'}\n").server,
      "grpc://host:5");
}

}  // namespace
}  // namespace llmd::plugins
