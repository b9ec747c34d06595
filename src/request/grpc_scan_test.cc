#include "grpc_scan.h"

#include "scan_testing.h"

#include "codec/protobuf.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>
#include <zlib.h>

namespace llmd::request {
namespace {

using namespace std::literals;
using codec::ProtoWriter;

constexpr std::string_view kGenerate = "/vllm.grpc.engine.VllmEngine/Generate";
constexpr std::string_view kEmbed = "/vllm.grpc.engine.VllmEngine/Embed";
constexpr std::string_view kPredict =
    "/google.cloud.aiplatform.v1beta1.PredictionService/ChatCompletions";
constexpr std::string_view kMalformed = "invalid or unsupported gRPC payload";

template <class Write>
std::string proto(Write&& write) {
  std::string out;
  ProtoWriter writer(out);
  write(writer);
  return out;
}

std::string framed(std::string_view message, char flag = 0) {
  std::string out(1, flag);
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(message.size() >> shift);
  return out.append(message);
}

std::string gzip(std::string_view text) {
  z_stream z{};
  EXPECT_EQ(deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&z, text.size()), 0);
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  z.avail_in = static_cast<uInt>(text.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&z, Z_FINISH), Z_STREAM_END);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}

std::string tokenized(std::initializer_list<uint64_t> ids, bool packed = true) {
  return proto([&](ProtoWriter& w) {
    w.bytes(1, "the text");
    std::string list;
    for (const uint64_t id : ids) {
      char space[10];
      if (packed)
        list.append(space, static_cast<size_t>(codec::put_varint(space, id) - space));
      else
        w.varint(2, id);
    }
    if (packed) w.bytes(2, list);
  });
}

struct Scanned {
  Scanned(BodyScan* (*make)(std::string_view, Arena&), std::string_view path, std::string b)
      : body(std::move(b)), view(make(path, arena)->finish(body)) {}
  std::string error() const { return view ? "" : view.error().message; }
  std::vector<uint32_t> tokens() const {
    const auto ids = view->prompts[0].token_ids;
    return {ids.begin(), ids.end()};
  }
  Arena arena;
  std::string body;
  Result<RequestView> view;
};

TEST(VllmGrpc, ReadsTokenIdsPackedOrNot) {
  for (const bool packed : {true, false})
    for (const bool compressed : {true, false}) {
      const auto message = proto([&](ProtoWriter& w) {
        w.bytes(1, "id");
        w.bytes(2, tokenized({1, 300, 4294967295}, packed));
        w.message(4, [&] {
          w.fixed(1, 3);
          w.varint(8, 0);
        });
        w.varint(5, 1);
        w.varint(99, 5);
      });
      const Scanned got(scan_vllm_grpc, kGenerate,
                        compressed ? framed(gzip(message), 1) : framed(message));
      ASSERT_TRUE(got.view) << got.error();
      EXPECT_EQ(got.view->api, Api::kCompletions);
      EXPECT_EQ(got.tokens(), (std::vector<uint32_t>{1, 300, 4294967295}));
      EXPECT_TRUE(got.view->stream);
      EXPECT_EQ(got.view->max_output_tokens, 0);
      EXPECT_FALSE(got.view->rewritable);
      EXPECT_EQ(got.view->model, "");
    }
}

TEST(VllmGrpc, ReadsText) {
  const Scanned got(scan_vllm_grpc, kGenerate,
                    framed(proto([](ProtoWriter& w) { w.bytes(3, "Hello world"); })));
  ASSERT_TRUE(got.view) << got.error();
  EXPECT_EQ(testing::stream(got.view->prompts[0]), "Hello world");
  EXPECT_FALSE(got.view->stream);
  EXPECT_EQ(got.view->max_output_tokens, std::nullopt);
}

TEST(VllmGrpc, TheLastInputCountsAndRepeatedOnesAreMerged) {
  const auto one = tokenized({1}), two = tokenized({2});
  const Scanned merged(scan_vllm_grpc, kGenerate, framed(proto([&](ProtoWriter& w) {
                         w.bytes(2, one);
                         w.bytes(2, two);
                       })));
  EXPECT_EQ(merged.tokens(), (std::vector<uint32_t>{1, 2}));
  const Scanned replaced(scan_vllm_grpc, kGenerate, framed(proto([&](ProtoWriter& w) {
                           w.bytes(2, one);
                           w.bytes(3, "text");
                           w.bytes(2, two);
                         })));
  EXPECT_EQ(replaced.tokens(), (std::vector<uint32_t>{2}));
}

TEST(VllmGrpc, ReadsMedia) {
  const auto media = proto([](ProtoWriter& w) {
    w.bytes(1, "pixels");
    for (const auto& [offset, length] : {std::pair{1, 2}, {300, 576}, {900, 1}})
      w.message(5, [&] {
        w.varint(1, static_cast<uint64_t>(offset));
        w.varint(2, static_cast<uint64_t>(length));
      });
    w.bytes(6, "first");
    w.bytes(6, "second");
  });
  const auto request = [&](uint32_t input, std::string_view content) {
    return framed(proto([&](ProtoWriter& w) {
      w.bytes(7, media);
      w.bytes(input, content);
    }));
  };
  const Scanned got(scan_vllm_grpc, kGenerate, request(2, tokenized({1, 2})));
  ASSERT_TRUE(got.view) << got.error();
  std::string text;
  for (const auto& [modality, hash, offset, length] : got.view->prompts[0].media)
    text.append(modality_name(modality)).append(" ").append(hash) +=
        "@" + std::to_string(offset) + "+" + std::to_string(length) + " ";
  EXPECT_EQ(text, "image first@1+2 image second@300+576 image @900+1 ");
  EXPECT_TRUE(
      Scanned(scan_vllm_grpc, kGenerate, request(3, "text")).view->prompts[0].media.empty());
}

TEST(VllmGrpc, RefusesMediaThatAreMalformedOrTooMany) {
  const auto with = [](std::string_view media) {
    return Scanned(scan_vllm_grpc, kGenerate, framed(proto([&](ProtoWriter& w) {
                     w.bytes(2, tokenized({1}));
                     w.bytes(7, media);
                   })))
        .error();
  };
  EXPECT_EQ(with("\x2a\x02\x08\xff"), kMalformed);
  EXPECT_EQ(with("\x2a\x05"), kMalformed);
  std::string places, hashes;
  for (size_t i = 0; i < kMediaMax; ++i) {
    places += "\x2a\0"s;
    hashes += "\x32\0"s;
  }
  EXPECT_EQ(with(places + hashes), "");
  EXPECT_EQ(with(places + "\x2a\0"s), "more than 65536 media");
  EXPECT_EQ(with(hashes + "\x32\0"s), "more than 65536 media");
}

TEST(VllmGrpc, ReadsEmbedRequests) {
  const Scanned got(scan_vllm_grpc, kEmbed, framed(proto([](ProtoWriter& w) {
                      w.bytes(1, "id");
                      w.bytes(2, tokenized({5, 6}));
                    })));
  ASSERT_TRUE(got.view) << got.error();
  EXPECT_EQ(got.view->api, Api::kEmbeddings);
  EXPECT_EQ(got.tokens(), (std::vector<uint32_t>{5, 6}));
}

TEST(VllmGrpc, SaysWhatIsWrong) {
  const auto text = proto([](ProtoWriter& w) { w.bytes(3, "x"); });
  const struct {
    std::string_view path;
    std::string body, error;
  } kCases[] = {
      {kGenerate, "", std::string(kMalformed)},
      {kGenerate, "\0\0\0\0"s, std::string(kMalformed)},
      {kGenerate, "\0\xff\xff\xff\xff"s, std::string(kMalformed)},
      {kGenerate, "\0\xff\xff\xff\xff"s + text, std::string(kMalformed)},
      {kGenerate, framed(text) + "x", std::string(kMalformed)},
      {kGenerate, framed(text) + framed(text), std::string(kMalformed)},
      {kGenerate, framed(text, 2), std::string(kMalformed)},
      {kGenerate, framed(text, 1), std::string(kMalformed)},
      {kGenerate, framed(gzip(text) + "x", 1), std::string(kMalformed)},
      {kGenerate, framed(gzip(text).substr(0, 20), 1), std::string(kMalformed)},
      {kGenerate, framed(gzip(std::string(5u << 20, 'x')), 1), std::string(kMalformed)},
      {kGenerate, framed("\x1a\x05x"), std::string(kMalformed)},
      {kGenerate, framed("\x12\x03\x12\x01\x80"), std::string(kMalformed)},
      {kGenerate, framed(""), "not supported request inputType"},
      {kEmbed, framed(text), "missing tokenized input in EmbedRequest"},
      {kEmbed, framed("\x12"), std::string(kMalformed)},
  };
  for (const auto& c : kCases) EXPECT_EQ(Scanned(scan_vllm_grpc, c.path, c.body).error(), c.error);
}

TEST(VllmGrpc, LeavesOtherMethodsUnread) {
  Arena arena;
  const auto view = scan_vllm_grpc("/vllm.grpc.engine.VllmEngine/Abort", arena)->finish("\xff");
  ASSERT_TRUE(view);
  EXPECT_EQ(view->api, Api::kRaw);
  EXPECT_EQ(scan_vllm_grpc_usage("/vllm.grpc.engine.VllmEngine/Abort", arena), nullptr);
}

std::string generate_answer() {
  const auto chunk = proto([](ProtoWriter& w) {
    w.message(1, [&] {
      w.bytes(1, "\x01\x02");
      w.varint(2, 7);
      w.varint(3, 1);
    });
  });
  const auto complete = proto([](ProtoWriter& w) {
    w.message(2, [&] {
      w.bytes(1, std::string(300, '\x05'));
      w.bytes(2, "length");
      w.varint(3, 7);
      w.varint(4, 10);
      w.varint(5, 3);
    });
  });
  return framed(chunk) + framed("\x0a\x7f") + framed(gzip(complete), 1);
}

TEST(VllmGrpc, ReadsUsageHoweverTheAnswerIsCut) {
  const std::string answer = generate_answer();
  for (const size_t step : {1ul, 2ul, 7ul, 64ul, answer.size()}) {
    Arena arena;
    UsageScan* scan = scan_vllm_grpc_usage(kGenerate, arena);
    for (size_t at = 0; at < answer.size(); at += step) scan->feed(answer.substr(at, step));
    scan->finish();
    const Usage& u = scan->usage();
    EXPECT_TRUE(u.present);
    EXPECT_EQ(u.prompt_tokens, 7);
    EXPECT_EQ(u.completion_tokens, 10);
    EXPECT_EQ(u.total_tokens, 17);
    EXPECT_EQ(u.cached_tokens, 3);
    EXPECT_EQ(scan->events(), 3u);
  }
}

TEST(VllmGrpc, AMalformedMessageCountsForNothing) {
  const auto counts = proto([](ProtoWriter& w) {
    w.message(2, [&] {
      w.varint(3, 7);
      w.varint(4, 10);
    });
  });
  for (const auto& bad : {framed(counts + "\xff"), framed(gzip(counts) + "x", 1),
                          framed(gzip(counts).substr(0, gzip(counts).size() - 1), 1)})
    for (const size_t step : {size_t{1}, bad.size()}) {
      Arena arena;
      UsageScan* scan = scan_vllm_grpc_usage(kGenerate, arena);
      for (size_t at = 0; at < bad.size(); at += step) scan->feed(bad.substr(at, step));
      EXPECT_FALSE(scan->usage().present);
      scan->feed(framed("\x12\x02\x18\x05"));  // knows nothing of the one before
      EXPECT_EQ(scan->usage().prompt_tokens, 5);
      EXPECT_EQ(scan->usage().completion_tokens, 0);
    }
}

TEST(VllmGrpc, AnAnswerWithoutCountsHasNoUsage) {
  Arena arena;
  UsageScan* scan = scan_vllm_grpc_usage(kGenerate, arena);
  scan->feed(framed("\x12\x02\x0a\x00"s) + framed("") + "\xff\xff");
  EXPECT_FALSE(scan->usage().present);
  scan = scan_vllm_grpc_usage(kEmbed, arena);
  scan->feed(framed(proto([](ProtoWriter& w) {
    w.bytes(1, std::string(64, 'f'));
    w.varint(2, 9);
    w.varint(3, 16);
  })));
  EXPECT_EQ(scan->usage().prompt_tokens, 9);
  EXPECT_EQ(scan->usage().total_tokens, 9);
}

std::string http_body(std::string_view data) {
  return proto([&](ProtoWriter& w) {
    w.bytes(1, "application/json");
    w.bytes(2, data);
  });
}

std::string prediction(std::string_view data) {
  return framed(proto([&](ProtoWriter& w) {
    w.bytes(1, "projects/p/locations/l/endpoints/e");
    w.bytes(2, http_body(data));
  }));
}

TEST(Vertex, ReadsTheBodyInsideByMethod) {
  const Scanned chat(
      scan_vertex, kPredict,
      prediction(R"({"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]})"));
  ASSERT_TRUE(chat.view) << chat.error();
  EXPECT_EQ(chat.view->api, Api::kChat);
  EXPECT_EQ(chat.view->model, "m");
  EXPECT_TRUE(chat.view->stream);
  EXPECT_FALSE(chat.view->rewritable);
  EXPECT_FALSE(chat.view->model_value);
  EXPECT_EQ(testing::stream(chat.view->prompts[0]), "userhi");
  for (const std::string_view method : {"RawPredict", "StreamRawPredict"}) {
    const Scanned raw(scan_vertex, "/x.PredictionService/" + std::string(method),
                      prediction(R"({"model":"m","input":"hi"})"));
    ASSERT_TRUE(raw.view) << raw.error();
    EXPECT_EQ(raw.view->api, Api::kResponses);
    EXPECT_EQ(raw.view->stream, method == "StreamRawPredict");
  }
}

TEST(Vertex, SaysWhatIsWrong) {
  const std::string raw = "/x.PredictionService/RawPredict";
  EXPECT_EQ(Scanned(scan_vertex, kPredict, framed("")).error(),
            "ChatCompletionsRequest has no HttpBody");
  EXPECT_EQ(Scanned(scan_vertex, raw, framed("")).error(), "RawPredictRequest has no HttpBody");
  EXPECT_EQ(Scanned(scan_vertex, "/x.PredictionService/StreamRawPredict", framed("")).error(),
            "StreamRawPredictRequest has no HttpBody");
  EXPECT_EQ(Scanned(scan_vertex, kPredict, prediction("{}")).error(),
            "parsing ChatCompletionsRequest: invalid chat completions request: must have valid "
            "messages field");
  EXPECT_EQ(Scanned(scan_vertex, kPredict, prediction("")).error(),
            "parsing ChatCompletionsRequest: error unmarshaling request bodyMap: unexpected end of "
            "JSON input");
  EXPECT_EQ(Scanned(scan_vertex, kPredict, "x").error(), kMalformed);
  EXPECT_EQ(Scanned(scan_vertex, kPredict, framed("\x12\x01\xff")).error(), kMalformed);
}

TEST(Vertex, ReadsUsageOfBothKindsOfAnswer) {
  const std::string whole = framed(
      http_body(R"({"usage":{"prompt_tokens":7,"completion_tokens":10,"total_tokens":17}})"));
  const std::string stream =
      framed(http_body("data: {\"choices\":[]}\n\n")) +
      framed(http_body("data: {\"usage\":{\"prompt_tokens\":7,\"compl")) +
      framed(http_body("etion_tokens\":10,\"total_tokens\":17}}\n\ndata: [DONE]\n\n"));
  for (const auto& answer : {whole, stream})
    for (const size_t step : {1ul, 5ul, 1000ul}) {
      Arena arena;
      UsageScan* scan = scan_vertex_usage(arena);
      for (size_t at = 0; at < answer.size(); at += step) scan->feed(answer.substr(at, step));
      scan->finish();
      EXPECT_EQ(scan->usage().prompt_tokens, 7);
      EXPECT_EQ(scan->usage().total_tokens, 17);
    }
}

}  // namespace
}  // namespace llmd::request
