#include "anthropic_scan.h"
#include "openai_scan.h"
#include "scan_fuzz_support.h"
#include "usage_scan.h"

#include <cstdint>
#include <cstdlib>
#include <string>

using namespace llmd;
using namespace llmd::request;

namespace {

std::string scan_body(BodyScan* (*make)(Arena&), const std::string& text, size_t step) {
  Arena arena;
  BodyScan* scan = make(arena);
  for (size_t end = step; end < text.size(); end += step) scan->feed(std::string(text, 0, end));
  return describe(scan->finish(text));
}

std::string usage_of(UsageFormat format, bool streaming, const std::string& text, size_t step) {
  Arena arena;
  UsageScan* scan = scan_usage(format, streaming, arena);
  for (size_t at = 0; at < text.size(); at += step) scan->feed(std::string(text, at, step));
  scan->finish();
  return describe(*scan);
}

}  // namespace

/// The first byte sets the piece size. What is read from a request or an answer does not depend on
/// how it is cut.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const size_t step = data[0] + 1;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  for (auto make : {scan_completions, scan_chat, scan_embeddings, scan_responses,
                    scan_conversations, scan_images, scan_messages})
    if (scan_body(make, text, text.size() + 1) != scan_body(make, text, step)) std::abort();
  for (auto format : {UsageFormat::kOpenAi, UsageFormat::kAnthropic, UsageFormat::kSglang})
    for (bool streaming : {false, true})
      if (usage_of(format, streaming, text, text.size() + 1) !=
          usage_of(format, streaming, text, step))
        std::abort();
  return 0;
}
