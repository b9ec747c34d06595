#include "raw_scan.h"

#include "request/parsers.h"

namespace llmd::request {
namespace {

class RawScan final : public BodyScan {
 public:
  void feed(std::string_view) override {}
  Result<RequestView> finish(std::string_view) override { return RequestView{}; }
};

class PassthroughParser final : public Parser {
 public:
  std::span<const std::string_view> path_suffixes() const override { return {}; }
  BodyScan* scan_request(const Head&, Arena& arena) const override { return scan_raw(arena); }
  UsageScan* scan_response(std::string_view, bool, Arena&) const override { return nullptr; }
};

}  // namespace

BodyScan* scan_raw(Arena& arena) {
  return arena.make<RawScan>();
}

const plugin::Descriptor& passthrough_parser() {
  static const plugin::Descriptor descriptor = plugin::describe<PassthroughParser>({
      .type = "passthrough-parser",
      .kind = "parser",
      .summary = "Accepts any body on any path and reads nothing from it.",
  });
  return descriptor;
}

}  // namespace llmd::request
