#pragma once

#include "codec/json_scan.h"
#include "predict/latency_predictor.h"

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// What is said to a prediction server and to a training server.
namespace llmd::predict {

/// Appends an endpoint's features as a row of {"requests": [...]}.
void write_row(std::string& out, const LatencyFeatures& features);
/// Appends a sample as a row of {"entries": [...]}.
void write_sample(std::string& out, const LatencyFeatures& features, PredictedLatency actual,
                  WallTime when);

/// Reads {"predictions": [{"ttft_ms": …, "tpot_ms": …}, …]} while it arrives.
/// Threading: one thread.
class PredictionsReader final : codec::JsonSink {
 public:
  PredictionsReader() : scanner_(schema(), *this) {}
  void feed(std::string_view chunk) { scanner_.feed_chunk(chunk); }
  /// After the last byte: nothing unless it is one document whose predictions all have both times,
  /// finite and not negative.
  std::optional<std::span<const PredictedLatency>> finish();

 private:
  static const codec::JsonSchema& schema();
  void open(uint8_t id, codec::JsonKind kind, size_t at) override;
  void value(uint8_t id, const codec::JsonValue& value) override;

  codec::JsonScanner scanner_;
  std::vector<PredictedLatency> predictions_;
  std::optional<double> ttft_, tpot_;
  bool good_ = true;
};

}  // namespace llmd::predict
