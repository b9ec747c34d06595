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
    const auto view = parser.scan_request({path, {}}, arena_)->finish("{}");
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

TEST_F(Parsers, AnthropicParserLeavesTokenCountingUnread) {
  const Parser& parser = make(anthropic_parser());
  EXPECT_EQ(refusal(parser, "/v1/messages"),
            "invalid messages request: must have at least one message");
  for (std::string_view path : {"/v1/messages/count_tokens", "/v1/messages/count_tokens/"}) {
    const auto view = parser.scan_request({path, {}}, arena_)->finish("{\"model\":\"m\"}");
    ASSERT_TRUE(view);
    EXPECT_EQ(view->api, Api::kRaw);
    EXPECT_EQ(parser.scan_response(path, false, arena_), nullptr);
  }
}

TEST_F(Parsers, GenerateParserReadsMedia) {
  const Parser& vllm = make(vllmhttp_parser());
  const auto parse = [&](std::string_view features) {
    const std::string body = R"({"token_ids":[1],"features":)" + std::string(features) + "}";
    const std::string_view kept = arena_.copy(body);
    return vllm.scan_request({"/inference/v1/generate", {}}, arena_)->finish(kept);
  };
  const auto media = [&](std::string_view features) {
    const auto view = parse(features);
    if (!view) return view.error().message;
    std::string text;
    for (const auto& [modality, hash, offset, length] : view->prompts[0].media) {
      text += std::string(modality_name(modality)) + ":" + std::string(hash);
      if (length > 0) text += "@" + std::to_string(offset) + "+" + std::to_string(length);
      text += " ";
    }
    return text;
  };
  EXPECT_EQ(media(R"({"mm_hashes":{"image":["a","b\u0041",null,""],"video":["c"],"other":["d"]},)"
                  R"("mm_placeholders":{"image":[{"offset":0,"length":4}]}})"),
            "image:a@0+4 image:bA video:c ");
  EXPECT_EQ(
      media(R"({"mm_placeholders":{"video":[{"length":9,"offset":7}],"image":[null,)"
            R"({"offset":4294967295,"length":2,"is_embed":null}]},"mm_hashes":{"image":["a"]}})"),
      "image:a image:@4294967295+2 video:@7+9 ");
  EXPECT_EQ(media(R"({"mm_hashes":{"image":["a"]},"mm_hashes":{"audio":["b"]}})"), "audio:b ");
  EXPECT_EQ(media(R"({"mm_hashes":{"image":["a"],"image":["b"]},"mm_placeholders":{"image":[)"
                  R"({"offset":1,"length":1}],"image":null}})"),
            "image:b ");
  for (const auto* none : {"null", "{}", R"({"mm_hashes":null})", R"({"mm_hashes":{"image":null}})",
                           R"({"mm_placeholders":{"image":[{}]}})"})
    EXPECT_EQ(media(none), "") << none;
  for (const auto* bad : {"[]", R"({"mm_hashes":[]})", R"({"mm_hashes":{"image":"a"}})",
                          R"({"mm_hashes":{"audio":[1]}})"})
    EXPECT_EQ(media(bad),
              "invalid generate request: features.mm_hashes must be lists of strings by modality")
        << bad;
  for (const auto* bad : {"[]", R"({"image":{}})", R"({"image":[1]})", R"({"audio":[[]]})",
                          R"({"video":[{"offset":-1}]})", R"({"image":[{"length":1.5}]})",
                          R"({"image":[{"length":4294967296}]})", R"({"image":[{"offset":"1"}]})"})
    EXPECT_EQ(
        media(R"({"mm_placeholders":)" + std::string(bad) + "}"),
        "invalid generate request: features.mm_placeholders must be lists of {offset, length} "
        "by modality")
        << bad;
  std::string many = R"({"mm_hashes":{"image":["")";
  for (size_t i = 0; i < kMediaMax; ++i) many += ",\"\"";
  EXPECT_EQ(media(many + "]}}"), "invalid generate request: more than 65536 media");
}

TEST_F(Parsers, GenerateParsersReadTokenIds) {
  const Parser& vllm = make(vllmhttp_parser());
  const Parser& sglang = make(sglanghttp_parser());
  const auto first =
      vllm.scan_request({"/inference/v1/generate", {}}, arena_)
          ->finish(R"({"model":"m","token_ids":[1,2,4294967295],"cache_salt":"s","stream":true,)"
                   R"("sampling_params":{"max_tokens":3},"sampling_params":{"max_tokens":9}})");
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(first->api, Api::kGenerate);
  EXPECT_EQ(first->model, "m");
  EXPECT_EQ(first->cache_salt, "s");
  EXPECT_TRUE(first->stream);
  EXPECT_TRUE(first->rewritable);
  EXPECT_EQ(first->max_output_tokens, 9);
  const auto ids = first->prompts[0].token_ids;
  EXPECT_EQ(std::vector(ids.begin(), ids.end()), (std::vector<uint32_t>{1, 2, 4294967295}));

  const auto second = sglang.scan_request({"/generate", {}}, arena_)
                          ->finish(R"({"input_ids":[7],"extra_key":"k",)"
                                   R"("sampling_params":{"max_new_tokens":4}})");
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_EQ(second->cache_salt, "k");
  EXPECT_EQ(second->max_output_tokens, 4);
  EXPECT_FALSE(second->rewritable);
  EXPECT_EQ(second->prompts[0].token_ids.size(), 1u);
}

TEST_F(Parsers, GenerateParsersSayWhatIsWrong) {
  const Parser& vllm = make(vllmhttp_parser());
  const Parser& sglang = make(sglanghttp_parser());
  const struct {
    const Parser& parser;
    std::string_view path, body, error;
  } kCases[] = {
      {vllm, "/inference/v1/generate", "{", "unexpected end of JSON input"},
      {vllm, "/inference/v1/generate", "{}",
       "invalid generate request: must have non-empty token_ids field"},
      {vllm, "/inference/v1/generate", R"({"token_ids":[]})",
       "invalid generate request: must have non-empty token_ids field"},
      {vllm, "/inference/v1/generate", R"({"token_ids":"1"})",
       "invalid generate request: token_ids must be an array"},
      {vllm, "/inference/v1/generate", R"({"token_ids":[1,-2,3]})",
       "invalid generate request: token_ids[1]: invalid value -2"},
      {vllm, "/inference/v1/generate", R"({"token_ids":[1,[2]]})",
       "invalid generate request: token_ids[1]: invalid value [2]"},
      {sglang, "/generate", "[", "invalid generate request: unexpected end of JSON input"},
      {sglang, "/generate", R"({"text":"x"})",
       "invalid generate request: input_ids must be provided"},
      {sglang, "/generate/", R"({"input_ids":null,"extra_key":3})",
       "invalid generate request: input_ids must be provided"},
      {sglang, "/generate", R"({"input_ids":["x"],"extra_key":3})",
       "unsupported generate request: extra_key must be a string"},
      {sglang, "/generate", R"({"input_ids":[1,"x"]})",
       "invalid generate request: input_ids must be an array of uint32 integers"},
      {sglang, "/generate", R"({"input_ids":[]})",
       "invalid generate request: input_ids cannot be empty"},
      {sglang, "/v1/generate", R"({"input_ids":[1]})", "unsupported path: /v1/generate"},
  };
  for (const auto& c : kCases) {
    const auto view = c.parser.scan_request({c.path, {}}, arena_)->finish(c.body);
    EXPECT_EQ(view ? "" : view.error().message, c.error) << c.body;
  }
}

TEST_F(Parsers, PassthroughParserTakesAnyBytes) {
  const Parser& parser = make(passthrough_parser());
  EXPECT_TRUE(parser.path_suffixes().empty());
  BodyScan* scan = parser.scan_request({"/any", {}}, arena_);
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
