#include "sim/counters.h"

namespace llmd::sim {
namespace {

constexpr double kFirstTokenBounds[] = {.001, .005, .01, .02, .04, .06, .08, .1, .25, .5,  .75,
                                        1,    2.5,  5,   7.5, 10,  20,  40,  80, 160, 640, 2560};
constexpr double kTokenBounds[] = {.01, .025, .05, .075, .1,  .15, .2, .3, .4, .5,
                                   .75, 1,    2.5, 5,    7.5, 10,  20, 40, 80};
constexpr double kLatencyBounds[] = {.3, .5, .8, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
                                     30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680};
constexpr double kChoiceBounds[] = {1, 2, 5, 10, 20};

}  // namespace

std::vector<double> one_two_five(uint32_t most) {
  std::vector<double> bounds;
  for (double decade = 1; decade <= most; decade *= 10)
    for (const int digit : {1, 2, 5})
      if (digit * decade <= most) bounds.push_back(digit * decade);
  return bounds;
}

const char* finish_reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kAbort:
      return "abort";
    case FinishReason::kError:
      return "error";
    case FinishReason::kRemoteDecode:
      return "remote_decode";
    case FinishReason::kCacheThreshold:
      return "cache_threshold";
  }
  return "stop";
}

Counters::Counters(std::span<const double> token_bounds)
    : time_to_first_token(kFirstTokenBounds),
      inter_token_latency(kTokenBounds),
      time_per_output_token(kTokenBounds),
      e2e_latency(kLatencyBounds),
      queue_time(kLatencyBounds),
      inference_time(kLatencyBounds),
      prefill_time(kLatencyBounds),
      decode_time(kLatencyBounds),
      request_prompt_tokens(token_bounds),
      request_generation_tokens(token_bounds),
      request_max_generation_tokens(token_bounds),
      request_params_max_tokens(token_bounds),
      prefill_kv_computed_tokens(token_bounds),
      request_params_n(kChoiceBounds) {}

}  // namespace llmd::sim
