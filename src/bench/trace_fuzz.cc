#include "base/check.h"
#include "bench/trace.h"

#include <algorithm>
#include <cstdint>

/// Whatever the file holds: what is read is in the order of time, from 0 on, and can be asked for.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace llmd::bench;
  auto trace = parse_trace({reinterpret_cast<const char*>(data), size});
  if (!trace) {
    CHECK(!trace.error().message.empty());
    return 0;
  }
  CHECK(trace->front().at == llmd::Nanos{0});
  CHECK(std::ranges::is_sorted(*trace, {}, &TraceRequest::at));
  TraceRequest& last = trace->back();
  last.input_tokens = std::min(last.input_tokens, 2 * TraceRequest::kPieceTokens);
  CHECK(trace_body(last, 1, "m", 64).ends_with("]}"));
  return 0;
}
