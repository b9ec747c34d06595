#include "response_meter.h"

#include <utility>

namespace llmd::route {

bool ResponseMeter::chunk(std::string_view bytes, const Clock& clock) {
  const TimePoint now = clock.now();
  const bool first = !std::exchange(began_, true);
  bytes_ += bytes.size();
  if (first) {
    first_ = now;
    if (series_)
      (streaming_ ? series_->ttft_streaming : series_->ttft_whole)
          .observe(seconds(now - received_));
  } else if (streaming_ && series_) {
    series_->itl.observe(seconds(now - last_));
  }
  last_ = now;
  if (usage_) usage_->feed(bytes);
  if (streaming_) work_ += clock.now() - now;
  return first;
}

request::Usage ResponseMeter::usage_so_far() const {
  request::Usage so_far = usage();
  if (usage_ && so_far.completion_tokens == 0)
    so_far.completion_tokens = static_cast<int64_t>(usage_->events());
  return so_far;
}

void ResponseMeter::finish_usage() {
  if (!std::exchange(finished_, true) && usage_) usage_->finish();
}

void ResponseMeter::end(TimePoint now, const metric::Histogram& processing) {
  finish_usage();
  if (!series_) return;
  const double total = seconds(now - received_);
  series_->duration.observe(total);
  series_->response_bytes.observe(static_cast<double>(bytes_));
  const double work = seconds(streaming_ ? work_ : now - started_);
  if (work > 0) processing.observe(work);
  if (usage().present) observe_usage(total, now);
}

void ResponseMeter::observe_usage(double total, TimePoint now) {
  const request::Usage u = usage();
  const auto out = static_cast<double>(u.completion_tokens);
  if (u.prompt_tokens > 0) series_->input_tokens.observe(static_cast<double>(u.prompt_tokens));
  if (u.cached_tokens) series_->cached_tokens.observe(static_cast<double>(*u.cached_tokens));
  if (out <= 0) return;
  series_->output_tokens.observe(out);
  series_->ntpot.observe(total / out);
  if (streaming_ && out > 1) series_->tpot.observe(seconds(now - first_) / (out - 1));
}

}  // namespace llmd::route
