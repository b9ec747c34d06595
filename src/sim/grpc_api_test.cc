#include "grpc_api.h"

#include "codec/protobuf.h"
#include "sim/tokenizer.h"

#include <gtest/gtest.h>

namespace llmd::sim {
namespace {

using namespace std::literals;

std::string framed(std::string_view message) {
  std::string out(4, '\0');
  out += static_cast<char>(message.size());
  return out.append(message);
}

TEST(GrpcApi, ReadsTokensAndText) {
  GenerationRequest request;
  // 2 tokenized{2 input_ids: 1, 300}, 4 sampling{8 max_tokens 16, 14 ignore_eos, 15 n 2}, 5 stream
  EXPECT_FALSE(read_grpc_generation(
      framed("\x12\x05\x12\x03\x01\xac\x02\x22\x06\x40\x10\x70\x01\x78\x02\x28\x01"s), request));
  EXPECT_EQ(request.prompts[0].ids, (std::vector<uint32_t>{1, 300}));
  EXPECT_EQ(request.max_tokens, 16u);
  EXPECT_TRUE(request.ignore_eos);
  EXPECT_EQ(request.n, 2u);
  EXPECT_TRUE(request.stream);
  EXPECT_FALSE(read_grpc_generation(framed("\x1a\x05Hello"), request));
  EXPECT_EQ(request.prompts[0].ids, std::vector{token_id("Hello")});
  EXPECT_FALSE(request.stream);
}

TEST(GrpcApi, RefusesWhatIsNoRequest) {
  GenerationRequest request;
  for (const auto& body : {""s, "\x1a\x05Hello"s, "\1\0\0\0\0"s, framed("\x1a\x05x"), framed(""),
                           framed("\x12\0"s), framed("\x1a\x01x\x22\x03\x78\xff\x01"s)})
    EXPECT_EQ(read_grpc_generation(body, request).value_or(ApiError{0, ""}).status, 400) << body;
}

TEST(GrpcApi, WritesAnswersInFrames) {
  const Usage usage{.prompt_tokens = 7, .completion_tokens = 2, .cached_tokens = 3};
  std::string out;
  append_grpc_chunk(out, 300, usage);
  EXPECT_EQ(out, framed("\x0a\x0a\x0a\x02\xac\x02\x10\x07\x18\x01\x20\x03"s));
  out.clear();
  const uint32_t ids[] = {1, 2};
  append_grpc_complete(out, ids, FinishReason::kStop, usage);
  EXPECT_EQ(out, framed("\x12\x10\x0a\x02\x01\x02\x12\x04stop\x18\x07\x20\x02\x28\x03"s));
}

}  // namespace
}  // namespace llmd::sim
