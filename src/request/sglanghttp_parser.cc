#include "generate_scan.h"
#include "usage_scan.h"

#include "request/parsers.h"

namespace llmd::request {
namespace {

constexpr std::string_view kSuffix = "generate";

constexpr codec::JsonField kFields[] = {
    {kRoot, "stream", kStream},       {kRoot, "extra_key", kSalt},
    {kRoot, "input_ids", kIds},       {kRoot, "sampling_params", kSampling},
    {kIds, codec::kJsonElement, kId}, {kSampling, "max_new_tokens", kCapFirst},
};
constexpr codec::JsonSchema kSchema(kFields);

class SglangGenerateScan final : public GenerateScan {
 public:
  explicit SglangGenerateScan(Arena& arena)
      : GenerateScan(kSchema,
                     {"invalid generate request: ",
                      "unsupported generate request: extra_key must be a string"},
                     arena) {}

 private:
  std::string_view refusal(std::string_view body) const override {
    if (state() == Ids::kAbsent) return "invalid generate request: input_ids must be provided";
    if (refused()) return JsonBodyScan::refusal(body);
    if (state() != Ids::kGood)
      return "invalid generate request: input_ids must be an array of uint32 integers";
    return complete() ? "" : "invalid generate request: input_ids cannot be empty";
  }
  bool rewritable() const override { return false; }
};

/// Refuses a path that only ends like the API's.
class NoSuchPath final : public BodyScan {
 public:
  explicit NoSuchPath(std::string_view path) : path_(path) {}
  void feed(std::string_view) override {}
  Result<RequestView> finish(std::string_view) override {
    return fail(Code::kBadRequest, "unsupported path: " + std::string(path_));
  }

 private:
  std::string_view path_;
};

class SglangHttpParser final : public Parser {
 public:
  std::span<const std::string_view> path_suffixes() const override { return {&kSuffix, 1}; }
  BodyScan* scan_request(const Head& head, Arena& arena) const override {
    std::string_view path = head.path;
    if (path.ends_with('/')) path.remove_suffix(1);
    if (path != "/generate") return arena.make<NoSuchPath>(arena.copy(path));
    return arena.make<SglangGenerateScan>(arena);
  }
  UsageScan* scan_response(std::string_view, bool streaming, Arena& arena) const override {
    return scan_usage(UsageFormat::kSglang, streaming, arena);
  }
};

}  // namespace

const plugin::Descriptor& sglanghttp_parser() {
  static const plugin::Descriptor descriptor = plugin::describe<SglangHttpParser>({
      .type = "sglanghttp-parser",
      .kind = "parser",
      .summary =
          "Reads requests of SGLang's generate API that give token ids, and the usage in its "
          "answers.",
  });
  return descriptor;
}

}  // namespace llmd::request
