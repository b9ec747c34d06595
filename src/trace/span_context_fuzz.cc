#include "base/check.h"
#include "trace/span_context.h"

#include <cstdint>

/// What is accepted is valid, and says the same when it is written and read again.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace llmd::trace;
  const auto context = parse_traceparent({reinterpret_cast<const char*>(data), size});
  if (!context) return 0;
  CHECK((context->trace_high != 0 || context->trace_low != 0) && context->span != 0);
  const auto text = format_traceparent(*context);
  const auto again = parse_traceparent({text.data(), text.size()});
  CHECK(again && again->trace_high == context->trace_high &&
        again->trace_low == context->trace_low && again->span == context->span &&
        again->sampled == context->sampled);
  return 0;
}
