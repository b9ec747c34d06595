#include "base/text.h"
#include "plugin/registry.h"
#include "schedule/interfaces.h"

#include <algorithm>

namespace llmd::plugins {
namespace {

constexpr std::string_view kHeader = "test-epp-endpoint-selection";

/// Of "IP", "IP:port", "[IP]" or "[IP]:port": the IP.
std::string_view address_of(std::string_view text) {
  if (text.starts_with('[')) return text.substr(1, text.find(']') - 1);
  const size_t colon = text.find(':');
  const bool v6 = colon != text.rfind(':');
  return v6 ? text : text.substr(0, colon);
}

/// For conformance tests of gateways: the request says where it goes.
class HeaderBasedTestingFilter final : public schedule::Filter {
 public:
  size_t filter(schedule::RequestContext& context, std::span<uint32_t> selected) const override {
    size_t kept = 0;
    auto list = context.headers.get(kHeader);
    while (!list.empty()) {
      const size_t comma = std::min(list.find(','), list.size());
      const auto address = address_of(trim(list.substr(0, comma)));
      list.remove_prefix(std::min(comma + 1, list.size()));
      const auto rest = selected.subspan(kept);
      const auto named = std::ranges::find_if(rest, [&](uint32_t i) {
        return context.candidates[i].endpoint->spec().address == address;
      });
      if (named != rest.end()) std::swap(selected[kept++], *named);
    }
    return kept;
  }
};

}  // namespace

const plugin::Descriptor& header_based_testing_filter() {
  static const auto descriptor = plugin::describe<HeaderBasedTestingFilter>(
      {.type = "header-based-testing-filter",
       .kind = "filter",
       .summary = "For conformance tests: keeps the endpoints whose addresses the header "
                  "test-epp-endpoint-selection lists, in its order.",
       .ignores_parameters = true});
  return descriptor;
}

}  // namespace llmd::plugins
