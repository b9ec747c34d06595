#include "openai_scan.h"

#include "media.h"
#include "scan_testing.h"

#include <gtest/gtest.h>
#include <xxhash.h>

#include <cstring>
#include <string>
#include <vector>

namespace llmd::request {
namespace {

using testing::Parsed;
using testing::Scan;
using testing::stream;

/// Chained block hashes over blocks of 64 tokens (spec 01 §8).
std::vector<uint64_t> hashes(std::string model, std::string bytes) {
  bytes.resize((bytes.size() + 3) / 4 * 4);
  uint64_t chain = XXH64(model.data(), model.size(), 0);
  std::vector<uint64_t> out;
  for (size_t at = 0; at < bytes.size(); at += 256) {
    const uint64_t pair[] = {XXH64(bytes.data() + at, std::min<size_t>(256, bytes.size() - at), 0),
                             chain};
    out.push_back(chain = XXH64(pair, sizeof pair, 0));
  }
  return out;
}

TEST(JsonBodyScan, ReadsCommonFields) {
  const Parsed p(
      scan_completions,
      R"({"model":"a\u002fb","prompt":"x","stream":true,"max_tokens":7,"cache_salt":"s\n"})");
  ASSERT_TRUE(p.good()) << p.error();
  EXPECT_EQ(p->api, Api::kCompletions);
  EXPECT_EQ(p->model, "a/b");
  EXPECT_EQ(p->model_value->begin, 9u);
  EXPECT_EQ(p->model_value->end, 19u);
  EXPECT_TRUE(p->stream);
  EXPECT_EQ(p->max_output_tokens, 7);
  EXPECT_EQ(p->cache_salt, "s\n");
  EXPECT_TRUE(p->rewritable);
}

TEST(JsonBodyScan, KnowsWhoAsksForTheLikelihoodOfThePrompt) {
  for (std::string_view asks : {R"("prompt_logprobs":0)", R"("prompt_logprobs":-1)",
                                R"("echo":true)", R"("logprobs":1,"echo":true)"})
    EXPECT_TRUE(
        Parsed(scan_completions, R"({"prompt":"x",)" + std::string(asks) + "}")->prompt_logprobs)
        << asks;
  for (std::string_view asks :
       {R"("prompt_logprobs":null)", R"("echo":false)", R"("echo":"true")", R"("logprobs":1)"})
    EXPECT_FALSE(
        Parsed(scan_completions, R"({"prompt":"x",)" + std::string(asks) + "}")->prompt_logprobs)
        << asks;
  EXPECT_TRUE(
      Parsed(scan_chat, R"({"messages":[{"role":"user","content":"x"}],"prompt_logprobs":1})")
          ->prompt_logprobs);
}

TEST(JsonBodyScan, StreamsOnlyOnTrue) {
  for (std::string_view value : {"false", "null", "\"true\"", "1", "[true]"})
    EXPECT_FALSE(
        Parsed(scan_completions, "{\"prompt\":\"x\",\"stream\":" + std::string(value) + "}")
            ->stream)
        << value;
}

TEST(JsonBodyScan, MissingOrOddModelIsEmpty) {
  EXPECT_EQ(Parsed(scan_completions, R"({"prompt":"x"})")->model, "");
  EXPECT_EQ(Parsed(scan_completions, R"({"prompt":"x"})")->model_value, std::nullopt);
  EXPECT_EQ(Parsed(scan_completions, R"({"prompt":"x","model":3})")->model, "");
}

TEST(JsonBodyScan, CapIsTheFirstKeyWithAWholeNumber) {
  const struct {
    std::string_view fields;
    std::optional<int64_t> cap;
  } kCases[] = {
      {R"("max_tokens":5)", 5},
      {R"("max_completion_tokens":0,"max_tokens":5)", 0},
      {R"("max_tokens":5,"max_completion_tokens":3)", 3},
      {R"("max_completion_tokens":-1,"max_tokens":5)", 5},
      {R"("max_completion_tokens":1.5,"max_tokens":5)", 5},
      {R"("max_completion_tokens":"3","max_tokens":5)", 5},
      {R"("max_completion_tokens":null,"max_tokens":1e2)", 100},
      {R"("max_tokens":16.0)", 16},
      {R"("max_tokens":1e99)", std::nullopt},
      {R"("max_output_tokens":5)", std::nullopt},
      {R"("max_tokens":3,"max_tokens":4)", 4},
  };
  for (const auto& c : kCases) {
    const std::string body = "{\"messages\":[{}]," + std::string(c.fields) + "}";
    EXPECT_EQ(Parsed(scan_chat, body)->max_output_tokens, c.cap) << c.fields;
  }
}

TEST(JsonBodyScan, ErrorsCarryTheReferencesTexts) {
  const struct {
    Scan scan;
    std::string_view body;
    std::string_view error;
  } kCases[] = {
      {scan_completions, "", "error unmarshaling request bodyMap: unexpected end of JSON input"},
      {scan_completions, "{\"prompt\":\"x\"",
       "error unmarshaling request bodyMap: unexpected end of JSON input"},
      {scan_chat, "hello",
       "error unmarshaling request bodyMap: invalid character 'h' looking for beginning of value"},
      {scan_chat, "[]",
       "error unmarshaling request bodyMap: json: cannot unmarshal array into Go value of type "
       "map[string]interface {}"},
      {scan_completions, "null", "invalid completions request: must have prompt field"},
      {scan_completions, "{}", "invalid completions request: must have prompt field"},
      {scan_completions, R"({"prompt":""})", "invalid completions request: must have prompt field"},
      {scan_completions, R"({"prompt":[]})", "invalid completions request: must have prompt field"},
      {scan_completions, R"({"prompt":null})",
       "invalid completions request: must have prompt field"},
      {scan_completions, R"({"prompt":{}})", "invalid completions request: must have prompt field"},
      {scan_completions, R"({"prompt":["a",1]})",
       "invalid completions request: must have prompt field"},
      {scan_completions, R"({"prompt":[1,"a"]})",
       "invalid completions request: must have prompt field"},
      {scan_completions, R"({"prompt":[[]]})",
       "invalid completions request: must have prompt field"},
      {scan_completions, R"({"prompt":[[1],2]})",
       "invalid completions request: must have prompt field"},
      {scan_completions, R"({"prompt":[1,[2]]})",
       "invalid completions request: must have prompt field"},
      {scan_completions, R"({"prompt":["a",[2]]})",
       "invalid completions request: must have prompt field"},
      {scan_completions, R"({"prompt":[[1],"a"]})",
       "invalid completions request: must have prompt field"},
      {scan_completions, R"({"prompt":[[1,"a"]]})",
       "invalid completions request: must have prompt field"},
      {scan_completions, R"({"prompt":[[1,[2]]]})",
       "invalid completions request: must have prompt field"},
      {scan_completions, R"({"prompt":[{"":1}]})",
       "invalid completions request: must have prompt field"},
      {scan_completions, R"({"prompt":[[1],null]})",
       "invalid completions request: must have prompt field"},
      {scan_completions, R"({"prompt":[-1]})",
       "invalid completions request: must have prompt field"},
      {scan_completions, R"({"prompt":[4294967296]})",
       "invalid completions request: must have prompt field"},
      {scan_completions, R"({"prompt":"x","cache_salt":1})",
       "invalid completions request: must have prompt field"},
      {scan_chat, R"({"messages":[]})",
       "invalid chat completions request: must have valid messages field"},
      {scan_chat, R"({"messages":"x"})",
       "invalid chat completions request: must have valid messages field"},
      {scan_chat, R"({"messages":["x"]})",
       "invalid chat completions request: must have valid messages field"},
      {scan_chat, R"({"messages":[{"content":7}]})",
       "invalid chat completions request: must have valid messages field"},
      {scan_chat, R"({"messages":[{"content":[{"type":"image_url","image_url":"x"}]}]})",
       "invalid chat completions request: must have valid messages field"},
      {scan_chat, R"({"messages":[{}],"tools":{}})",
       "invalid chat completions request: must have valid messages field"},
      {scan_embeddings, R"({"input":""})", "invalid embeddings request: must have input field"},
      {scan_responses, R"({"input":null})", "invalid responses request: must have input field"},
      {scan_conversations, R"({"items":[]})",
       "invalid conversations request: must have items field"},
      {scan_images, R"({"model":"m"})",
       "invalid images generations request: must have prompt field"},
  };
  for (const auto& c : kCases) {
    const Parsed p(c.scan, c.body);
    EXPECT_EQ(p.error(), c.error) << c.body;
  }
}

TEST(CompletionScan, PromptsAreIndependent) {
  EXPECT_EQ(Parsed(scan_completions, R"({"prompt":"Hello \"world\""})").text(), "Hello \"world\"");
  const Parsed p(scan_completions, R"({"prompt":["a","","b\n"]})");
  ASSERT_EQ(p->prompts.size(), 3u);
  EXPECT_EQ(p.text(0), "a");
  EXPECT_EQ(p.text(1), "");
  EXPECT_EQ(p.text(2), "b\n");
}

TEST(CompletionScan, TokenIdsPassThrough) {
  const Parsed p(scan_completions, R"({"prompt":[0, 1,4294967295,2.0]})");
  EXPECT_EQ(p->prompts.size(), 1u);
  EXPECT_EQ(p.tokens(), (std::vector<uint32_t>{0, 1, 4294967295, 2}));
}

TEST(CompletionScan, EveryTokenListIsAPrompt) {
  for (const Scan scan : {scan_completions, scan_embeddings}) {
    const Parsed p(scan, R"({"prompt":[[1, 2],[],[3]],"input":[[1, 2],[],[3]]})");
    ASSERT_TRUE(p.good()) << p.error();
    ASSERT_EQ(p->prompts.size(), 3u);
    EXPECT_EQ(p.tokens(0), (std::vector<uint32_t>{1, 2}));
    EXPECT_EQ(p.tokens(1), std::vector<uint32_t>{});
    EXPECT_EQ(p.tokens(2), std::vector<uint32_t>{3});
  }
}

TEST(CompletionScan, LastPromptWins) {
  EXPECT_EQ(Parsed(scan_completions, R"({"prompt":[[1],[2]],"prompt":[[3]]})").tokens(),
            std::vector<uint32_t>{3});
  EXPECT_EQ(Parsed(scan_completions, R"({"prompt":[[1],[2]],"prompt":["b"]})").text(), "b");
  EXPECT_EQ(Parsed(scan_completions, R"({"prompt":"a","prompt":["b"]})").text(), "b");
  EXPECT_EQ(Parsed(scan_completions, R"({"prompt":[1],"prompt":"b"})").text(), "b");
}

TEST(ChatScan, StreamsToolsThenRolesAndContents) {
  EXPECT_EQ(
      Parsed(
          scan_chat,
          R"({"messages":[{"role":"system","content":"You are helpful."},)"
          R"({"content":[{"type":"text","text":"Hi"},{"text":" t","type":"text"}],"role":"user"},)"
          R"({"role":"assistant","content":null,"tool_calls":[{"id":"x"}]}],)"
          R"("tools": [ {"type":"function","function":{"name":"<f>"}} ]})")
          .text(),
      "[{\"function\":{\"name\":\"\\u003cf\\u003e\"},\"type\":\"function\"}]"
      "systemYou are helpful.userHi tassistant");
}

TEST(ChatScan, LastOfRepeatedKeysWins) {
  EXPECT_EQ(
      Parsed(scan_chat, R"({"messages":[{"role":"a","content":"b","role":"c","content":["d"]}]})")
          .good(),
      false);
  EXPECT_EQ(
      Parsed(scan_chat,
             R"({"messages":[{"role":"a"}],"messages":[{"content":[{"type":"text","text":"x"}],)"
             R"("role":"r","content":"c"}]})")
          .text(),
      "rc");
}

TEST(ChatScan, ReadsMediaAsPlaceholders) {
  const Parsed p(scan_chat,
                 R"({"messages":[{"role":"user","content":[{"type":"text","text":"hi"},)"
                 R"({"type":"image_url","image_url":{"url":"https://example.com/a.png"}},)"
                 R"({"type":"video_url","video_url":{"url":"v"}},)"
                 R"({"type":"input_audio","input_audio":{"format":"wav","data":"abcdefgh"}},)"
                 R"({"type":"audio_url","audio_url":{"url":"https://example.com/a.wav"}},)"
                 R"({"type":"audio_url","audio_url":{"url":1}},{"type":"custom","x":1}]}]})");
  ASSERT_TRUE(p.good()) << p.error();
  const auto pieces = p->prompts[0].pieces;
  ASSERT_EQ(pieces.size(), 7u);
  EXPECT_EQ(pieces[2].token, 0x6ee1cebau);
  EXPECT_EQ(pieces[2].count, 225u);
  EXPECT_EQ(pieces[3].count, 4500u);
  EXPECT_EQ(pieces[3].modality, Modality::kVideo);
  EXPECT_EQ(pieces[4].count, 2u);
  EXPECT_EQ(pieces[4].text, "abcdefghwav");
  EXPECT_EQ(pieces[5].text, "https://example.com/a.wav");
  EXPECT_EQ(pieces[5].count, 1u);
  EXPECT_EQ(pieces[6].text, "");
}

TEST(EmbeddingScan, StreamsTheReferencesRecord) {
  EXPECT_EQ(Parsed(scan_embeddings, R"({"input":"hello"})").text(),
            R"({"Raw":"hello","Strings":null,"TokenIDs":null})");
  EXPECT_EQ(Parsed(scan_embeddings, R"({"input":[ "a" , "<" ]})").text(),
            R"({"Raw":"","Strings":["a","\u003c"],"TokenIDs":null})");
  EXPECT_EQ(Parsed(scan_embeddings, R"({"input":[1,2]})").tokens(), (std::vector<uint32_t>{1, 2}));
}

TEST(ResponseScan, StreamsTheListOfItsFields) {
  EXPECT_EQ(Parsed(scan_responses, R"({"input":"hi","instructions":"Be brief"})").text(),
            R"([{"instructions":"Be brief"},{"input":"hi"}])");
  EXPECT_EQ(Parsed(scan_responses, R"({"input":[1],"tools":[],"instructions":null})").text(),
            R"([{"tools":[]},{"input":[1]}])");
  EXPECT_EQ(Parsed(scan_responses, R"({"input":1,"tools":[2],"instructions":"i"})").text(),
            R"([{"instructions":"i"},{"tools":[2]},{"input":1}])");
}

TEST(JsonBodyScan, StreamsHashToTheReferencesBlocks) {
  using Hashes = std::vector<uint64_t>;
  EXPECT_EQ(hashes("m", Parsed(scan_completions, R"({"prompt":"Hello world"})").text()),
            Hashes{0xeebfe7b0a2b32b05});
  EXPECT_EQ(hashes("ms1", Parsed(scan_completions, R"({"prompt":"Hello world"})").text()),
            Hashes{0xdbf3f676d95f4e1f});
  const std::string chat =
      Parsed(
          scan_chat,
          R"({"messages":[{"role":"system","content":"You are helpful."},{"role":"user","content":"Hi"}]})")
          .text();
  EXPECT_EQ(hashes("m", chat), Hashes{0x1ac6b72bac5ce835});
  EXPECT_EQ(hashes("food-review", chat), Hashes{0x90b31990f3a3f92b});
  EXPECT_EQ(hashes("m", Parsed(scan_embeddings, R"({"input":"hello"})").text()),
            Hashes{0x470dbc4782548c47});
  EXPECT_EQ(
      hashes("m", Parsed(scan_responses, R"({"instructions":"Be brief","input":"hi"})").text()),
      Hashes{0x1a9460bebd2aad08});
  EXPECT_EQ(
      hashes("m",
             Parsed(scan_completions, "{\"prompt\":\"" + std::string(600, 'a') + "\"}").text()),
      (Hashes{0x3f61340d0ed082d6, 0x04e61d707a6fb751, 0xb66f4b25d7036ead}));
  EXPECT_EQ(
      hashes("m",
             Parsed(scan_chat,
                    R"({"messages":[{"role":"user","content":[{"type":"text","text":"hi"},)"
                    R"({"type":"image_url","image_url":{"url":"https://example.com/a.png"}}]}]})")
                 .text()),
      (Hashes{0x6ada762fb70deb97, 0x9f0bf4816483315a, 0xdececa73c8b3c1de, 0x343309addb3e9023}));
}

TEST(ConversationScan, StreamsTheReferencesRecords) {
  const std::string text =
      Parsed(scan_conversations,
             R"({"items":[{"content":"hi","extra":1,"role":"user","type":"message"}]})")
          .text();
  EXPECT_EQ(text, R"([{"type":"message","role":"user","content":"hi"}])");
  EXPECT_EQ(hashes("m", text), std::vector<uint64_t>{0x77b49de6400e883b});
  EXPECT_EQ(
      Parsed(scan_conversations, R"({"items":[{"type":"a"},{"content":[{"b":1,"a":2}]}]})").text(),
      R"([{"type":"a"},{"content":[{"a":2,"b":1}]}])");
}

TEST(ImageTokens, ReadsSizesFromHeaders) {
  EXPECT_EQ(image_tokens("https://example.com/a.png"), 225u);
  EXPECT_EQ(image_tokens("data:image/png;base64,xx"), 225u);
  EXPECT_EQ(image_tokens("data:image/png,abc"), 225u);
  // 1024 x 512 PNG, 64 x 64 GIF (at least one token), 640 x 480 JPEG with an APP0 segment before
  // the frame header.
  EXPECT_EQ(image_tokens("data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAABAAAAAIACAYAAAA="), 512u);
  EXPECT_EQ(image_tokens("data:image/gif;base64,R0lGODlhEAAQAA=="), 1u);
  EXPECT_EQ(image_tokens("data:image/jpeg;base64,/9j/4AAEAAD/wAARCAHgAoADASIA"), 300u);
}

TEST(JsonBodyScan, ResumesAtAnyOffset) {
  const std::string body =
      R"({"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"a\u00e9\n"},)"
      R"({"type":"image_url","image_url":{"url":"u"}}]},{"role":"x","content":"\ud83d\ude00"}],"max_tokens":12})";
  const std::string expected = Parsed(scan_chat, body).text();
  for (size_t split = 0; split <= body.size(); ++split) {
    Arena arena;
    BodyScan* scan = scan_chat(arena);
    scan->feed(std::string(body, 0, split));
    const auto view = scan->finish(body);
    ASSERT_TRUE(view) << view.error().message;
    EXPECT_EQ(stream(view->prompts[0]), expected);
    EXPECT_EQ(view->max_output_tokens, 12);
  }
}

}  // namespace
}  // namespace llmd::request
