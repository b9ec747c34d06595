#include "generate_scan.h"
#include "usage_scan.h"

#include "request/parsers.h"

#include <algorithm>
#include <string>

namespace llmd::request {
namespace {

constexpr std::string_view kSuffix = "inference/v1/generate";

constexpr codec::JsonField kFields[] = {
    LLMD_COMMON_FIELDS,
    {kRoot, "token_ids", kIds},
    {kRoot, "sampling_params", kSampling},
    {kRoot, "features", kFeatures},
    {kIds, codec::kJsonElement, kId},
    {kSampling, "max_tokens", kCapFirst},
    {kSampling, "prompt_logprobs", kPromptLogprobs},
    {kFeatures, "mm_hashes", kHashes},
    {kFeatures, "mm_placeholders", kPlaces},
    {kHashes, "image", kFirstList},
    {kHashes, "audio", kFirstList + 1},
    {kHashes, "video", kFirstList + 2},
    {kFirstList, codec::kJsonElement, kFirstHash},
    {kFirstList + 1, codec::kJsonElement, kFirstHash + 1},
    {kFirstList + 2, codec::kJsonElement, kFirstHash + 2},
    {kPlaces, "image", kFirstPlaces},
    {kPlaces, "audio", kFirstPlaces + 1},
    {kPlaces, "video", kFirstPlaces + 2},
    {kFirstPlaces, codec::kJsonElement, kFirstPlace},
    {kFirstPlaces + 1, codec::kJsonElement, kFirstPlace + 1},
    {kFirstPlaces + 2, codec::kJsonElement, kFirstPlace + 2},
    {kFirstPlace, "offset", kOffset},
    {kFirstPlace, "length", kLength},
    {kFirstPlace + 1, "offset", kOffset},
    {kFirstPlace + 1, "length", kLength},
    {kFirstPlace + 2, "offset", kOffset},
    {kFirstPlace + 2, "length", kLength},
};
constexpr codec::JsonSchema kSchema(kFields);

class VllmGenerateScan final : public GenerateScan {
 public:
  explicit VllmGenerateScan(Arena& arena)
      : GenerateScan(kSchema, {"", "invalid generate request: cache_salt must be a string"},
                     arena) {}

 private:
  std::string_view refusal(std::string_view body) const override {
    constexpr size_t kShownBytes = 40;
    const auto [begin, end] = bad_element();
    if (refused()) return JsonBodyScan::refusal(body);
    if (!bad_media().empty())
      return arena_.copy("invalid generate request: " + std::string(bad_media()));
    if (state() == Ids::kNoList) return "invalid generate request: token_ids must be an array";
    if (state() == Ids::kBadElement)
      return arena_.copy("invalid generate request: token_ids[" + std::to_string(bad_index()) +
                         "]: invalid value " +
                         std::string(body.substr(begin, std::min(end - begin, kShownBytes))));
    return complete() ? "" : "invalid generate request: must have non-empty token_ids field";
  }
};

class VllmHttpParser final : public Parser {
 public:
  std::span<const std::string_view> path_suffixes() const override { return {&kSuffix, 1}; }
  BodyScan* scan_request(const Head&, Arena& arena) const override {
    return arena.make<VllmGenerateScan>(arena);
  }
  UsageScan* scan_response(std::string_view, bool streaming, Arena& arena) const override {
    return scan_usage(UsageFormat::kOpenAi, streaming, arena);
  }
};

}  // namespace

const plugin::Descriptor& vllmhttp_parser() {
  static const plugin::Descriptor descriptor = plugin::describe<VllmHttpParser>({
      .type = "vllmhttp-parser",
      .kind = "parser",
      .summary = "Reads requests of vLLM's generate API, which takes token ids, and the usage in "
                 "its answers.",
  });
  return descriptor;
}

}  // namespace llmd::request
