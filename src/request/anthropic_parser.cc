#include "anthropic_scan.h"
#include "raw_scan.h"
#include "usage_scan.h"

#include "request/parsers.h"

namespace llmd::request {
namespace {

constexpr std::string_view kSuffixes[] = {"messages", "messages/count_tokens"};

/// Counting tokens costs a server nothing worth steering for, and its answer has no usage.
bool only_counts(std::string_view path) {
  if (path.ends_with('/')) path.remove_suffix(1);
  return path.ends_with("count_tokens");
}

class AnthropicParser final : public Parser {
 public:
  std::span<const std::string_view> path_suffixes() const override { return kSuffixes; }
  BodyScan* scan_request(const Head& head, Arena& arena) const override {
    std::string_view path = head.path;
    return only_counts(path) ? scan_raw(arena) : scan_messages(arena);
  }
  UsageScan* scan_response(std::string_view path, bool streaming, Arena& arena) const override {
    return only_counts(path) ? nullptr : scan_usage(UsageFormat::kAnthropic, streaming, arena);
  }
};

}  // namespace

const plugin::Descriptor& anthropic_parser() {
  static const plugin::Descriptor descriptor = plugin::describe<AnthropicParser>({
      .type = "anthropic-parser",
      .kind = "parser",
      .summary = "Reads requests of Anthropic's messages API and the usage in their answers; "
                 "count_tokens passes unread.",
  });
  return descriptor;
}

}  // namespace llmd::request
