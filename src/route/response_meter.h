#pragma once

#include "request_probe.h"

#include "base/clock.h"
#include "request/parser.h"

#include <cstdint>
#include <string_view>

namespace llmd::route {

/// Measures one answer while it passes: its usage, its size, and when its chunks came (spec 04 §3).
/// Threading: the request's loop.
class ResponseMeter {
 public:
  ResponseMeter() = default;
  /// `usage` and `series` may be null: then nothing is read, or nothing observed.
  ResponseMeter(TimePoint received, TimePoint now, bool streaming, request::UsageScan* usage,
                RequestSeries* series)
      : received_(received), started_(now), streaming_(streaming), usage_(usage), series_(series) {}

  /// True for the first chunk.
  bool chunk(std::string_view bytes, const Clock& clock);
  /// The last byte was given to chunk(): usage() is final. Idempotent.
  void finish_usage();
  /// After the last byte; `processing` is response_processing_duration_seconds.
  void end(TimePoint now, const metric::Histogram& processing);

  request::Usage usage() const { return usage_ ? usage_->usage() : request::Usage{}; }
  /// The same of an answer that broke off: if it did not say, each event counts as a token of
  /// output.
  request::Usage usage_so_far() const;
  /// From the request's head to the first byte of the answer's body; 0 without a body.
  Nanos ttft() const { return began_ ? first_ - received_ : Nanos{0}; }

 private:
  void observe_usage(double total, TimePoint now);

  TimePoint received_{}, started_{}, first_{}, last_{};
  bool began_ = false;  // a chunk has come
  bool streaming_ = false;
  bool finished_ = false;
  request::UsageScan* usage_ = nullptr;
  RequestSeries* series_ = nullptr;
  uint64_t bytes_ = 0;
  Nanos work_{0};  // spent on chunks, streamed answers
};

}  // namespace llmd::route
