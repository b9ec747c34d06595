#include "messages.h"

#include "base/text.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <cmath>
#include <iterator>

namespace llmd::predict {
namespace {

enum : uint8_t { kRoot, kPredictions, kPrediction, kTtft, kTpot };

constexpr codec::JsonField kFields[] = {
    {kRoot, "predictions", kPredictions},
    {kPredictions, codec::kJsonElement, kPrediction},
    {kPrediction, "ttft_ms", kTtft},
    {kPrediction, "tpot_ms", kTpot},
};
constexpr codec::JsonSchema kSchema(kFields);

void write_features(std::string& out, const LatencyFeatures& f, int generated) {
  fmt::format_to(
      std::back_inserter(out),
      R"({{"kv_cache_percentage":{},"input_token_length":{},"num_request_waiting":{},)"
      R"("num_request_running":{},"num_tokens_generated":{},"prefix_cache_score":{},)"
      R"("encoder_input_size":{},"encoder_matched_size":{},"prefill_tokens_in_flight":{},)"
      R"("decode_tokens_in_flight":0)",
      f.kv_cache_usage, f.input_tokens, f.waiting_requests, f.running_requests, generated,
      f.prefix_share, f.encoder_items, f.encoder_matched, f.prefill_tokens_in_flight);
  if (f.role.empty()) return;
  out += R"(,"pod_type":")";
  append_json_escaped(out, f.role);
  out += '"';
}

}  // namespace

void write_row(std::string& out, const LatencyFeatures& features) {
  write_features(out, features, 1);
  out += '}';
}

void write_sample(std::string& out, const LatencyFeatures& features, PredictedLatency actual,
                  WallTime when) {
  write_features(out, features, 0);
  const auto time = std::chrono::floor<std::chrono::seconds>(when);
  fmt::format_to(std::back_inserter(out),
                 R"(,"actual_ttft_ms":{},"actual_tpot_ms":{},"timestamp":"{:%FT%TZ}"}})",
                 std::trunc(actual.ttft_ms), std::trunc(actual.tpot_ms), time);
}

const codec::JsonSchema& PredictionsReader::schema() {
  return kSchema;
}

void PredictionsReader::open(uint8_t id, codec::JsonKind, size_t) {
  if (id == kPrediction) ttft_ = tpot_ = std::nullopt;
}

void PredictionsReader::value(uint8_t id, const codec::JsonValue& v) {
  // A longer number can be read only where it is not split.
  const bool is_number =
      v.kind == codec::JsonKind::kNumber && v.text.size() <= codec::JsonScanner::kHeldMax;
  const auto number = [&]() -> std::optional<double> {
    const auto read = is_number ? parse_double(v.text) : std::nullopt;
    return read && std::isfinite(*read) && *read >= 0 ? read : std::nullopt;
  };
  if (id == kTtft) ttft_ = number();
  if (id == kTpot) tpot_ = number();
  if (id != kPrediction) return;
  good_ = good_ && v.kind == codec::JsonKind::kObject && ttft_ && tpot_;
  if (good_) predictions_.push_back({.ttft_ms = *ttft_, .tpot_ms = *tpot_});
}

std::optional<std::span<const PredictedLatency>> PredictionsReader::finish() {
  if (!scanner_.finish() || !good_) return std::nullopt;
  return predictions_;
}

}  // namespace llmd::predict
