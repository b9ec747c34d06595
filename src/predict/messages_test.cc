#include "messages.h"

#include <gtest/gtest.h>

namespace llmd::predict {
namespace {

TEST(WriteRow, WritesFeatures) {
  std::string out;
  write_row(out, {.kv_cache_usage = 0.5,
                  .input_tokens = 100,
                  .waiting_requests = 4,
                  .running_requests = 2,
                  .prefix_share = 0.25,
                  .encoder_items = 3,
                  .encoder_matched = 1,
                  .prefill_tokens_in_flight = 70,
                  .role = "pre\"fill"});
  EXPECT_EQ(out, R"({"kv_cache_percentage":0.5,"input_token_length":100,"num_request_waiting":4,)"
                 R"("num_request_running":2,"num_tokens_generated":1,"prefix_cache_score":0.25,)"
                 R"("encoder_input_size":3,"encoder_matched_size":1,"prefill_tokens_in_flight":70,)"
                 R"("decode_tokens_in_flight":0,"pod_type":"pre\"fill"})");
}

TEST(WriteSample, WritesFeaturesAndTimes) {
  std::string out;
  write_sample(out, {}, {.ttft_ms = 120.7}, WallTime(std::chrono::hours(1)));
  EXPECT_NE(out.find(R"("num_tokens_generated":0,)"), std::string::npos);
  EXPECT_EQ(out.find("pod_type"), std::string::npos);
  EXPECT_TRUE(out.ends_with(
      R"(,"actual_ttft_ms":120,"actual_tpot_ms":0,"timestamp":"1970-01-01T01:00:00Z"})"))
      << out;
}

/// "ttft/tpot" of each prediction, or "refused"; the same however the answer is cut.
std::string read(std::string_view answer) {
  std::string whole;
  for (const size_t step : {answer.size() + 1, size_t{1}, size_t{7}}) {
    PredictionsReader reader;
    for (size_t at = 0; at < answer.size(); at += step) reader.feed(answer.substr(at, step));
    const auto predictions = reader.finish();
    std::string text = predictions ? "" : "refused";
    if (predictions)
      for (const auto& p : *predictions)
        text += std::to_string(static_cast<int>(p.ttft_ms)) + "/" +
                std::to_string(static_cast<int>(p.tpot_ms)) + " ";
    if (whole.empty()) whole = text;
    EXPECT_EQ(text, whole);
  }
  return whole;
}

TEST(PredictionsReader, ReadsBothTimesOfEach) {
  EXPECT_EQ(read(R"({"predictions":[{"ttft_ms":100.5,"tpot_ms":10,"model_type":"xgboost"},)"
                 R"({"x":{"ttft_ms":1},"tpot_ms":2e1,"ttft_ms":200}],"total_requests":2})"),
            "100/10 200/20 ");
  EXPECT_EQ(read(R"({"predictions":[]})"), "");
}

TEST(PredictionsReader, RefusesWhatIsNoPrediction) {
  for (const auto* answer :
       {"", "{", R"({"predictions":[{"ttft_ms":1}]})", R"({"predictions":[1]})",
        R"({"predictions":[{"ttft_ms":-1,"tpot_ms":1}]})",
        R"({"predictions":[{"ttft_ms":"1","tpot_ms":1}]})",
        R"({"predictions":[{"ttft_ms":1e999,"tpot_ms":1}]})"})
    EXPECT_EQ(read(answer), "refused") << answer;
  EXPECT_EQ(read(R"({"predictions":[{"ttft_ms":)" + std::string(65, '1') + R"(,"tpot_ms":1}]})"),
            "refused")
      << "a number longer than can be read wherever it is split";
}

}  // namespace
}  // namespace llmd::predict
