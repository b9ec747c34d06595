#include "request/parsers.h"

#include "base/clock.h"
#include "request/parser.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace llmd::request {
namespace {

class Parsers : public testing::Test {
 protected:
  const Parser& make(const plugin::Descriptor& descriptor) {
    auto made =
        descriptor.make(plugin::Context{descriptor.type, state_, metrics_, clock_}, nullptr);
    EXPECT_TRUE(made) << made.error().message;
    plugins_.push_back(std::move(made->plugin));
    return dynamic_cast<const Parser&>(*plugins_.back());
  }

  std::string refusal(const Parser& parser, std::string_view path) {
    const auto view = parser.scan_request(path, arena_)->finish("{}");
    return view ? "" : view.error().message;
  }

  plugin::StateStore state_;
  metric::Registry metrics_{1};
  ManualClock clock_;
  Arena arena_;
  std::vector<std::unique_ptr<plugin::Plugin>> plugins_;
};

TEST_F(Parsers, OpenAiParserChoosesTheApiByPath) {
  const Parser& parser = make(openai_parser());
  const struct {
    std::string_view path;
    std::string_view error;
  } kCases[] = {
      {"/v1/completions", "invalid completions request: must have prompt field"},
      {"/v1/completions/render", "invalid completions request: must have prompt field"},
      {"/v1/chat/completions", "invalid chat completions request: must have valid messages field"},
      {"/v1/chat/completions/", "invalid chat completions request: must have valid messages field"},
      {"/v1/chat/completions/render",
       "invalid chat completions request: must have valid messages field"},
      {"/v1/embeddings", "invalid embeddings request: must have input field"},
      {"/v1/responses", "invalid responses request: must have input field"},
      {"/v1/conversations", "invalid conversations request: must have items field"},
      {"/v1/images/generations", "invalid images generations request: must have prompt field"},
  };
  for (const auto& c : kCases) EXPECT_EQ(refusal(parser, c.path), c.error) << c.path;
}

TEST_F(Parsers, OpenAiParserReadsUsageOfBothKindsOfAnswer) {
  const Parser& parser = make(openai_parser());
  for (bool streaming : {false, true}) {
    UsageScan* scan = parser.scan_response("/v1/completions", streaming, arena_);
    ASSERT_NE(scan, nullptr);
    scan->feed(streaming ? "data: {\"usage\":{\"prompt_tokens\":4}}\n\n"
                         : "{\"usage\":{\"prompt_tokens\":4}}");
    scan->finish();
    EXPECT_EQ(scan->usage().prompt_tokens, 4);
  }
}

TEST_F(Parsers, PassthroughParserTakesAnyBytes) {
  const Parser& parser = make(passthrough_parser());
  EXPECT_TRUE(parser.path_suffixes().empty());
  BodyScan* scan = parser.scan_request("/any", arena_);
  scan->feed("\xff");
  const auto view = scan->finish("\xff\xfe");
  ASSERT_TRUE(view);
  EXPECT_EQ(view->api, Api::kRaw);
  EXPECT_FALSE(view->rewritable);
  EXPECT_EQ(parser.scan_response("/any", true, arena_), nullptr);
}

TEST_F(Parsers, DefaultTableSendsOtherPathsToPassthrough) {
  const Parser& openai = make(openai_parser());
  const Parser& raw = make(passthrough_parser());
  const Parser* const parsers[] = {&openai, &raw};
  const ParserTable table(parsers);
  EXPECT_EQ(table.resolve("/v1/chat/completions"), &openai);
  EXPECT_EQ(table.resolve("/tokenize"), &raw);
}

}  // namespace
}  // namespace llmd::request
