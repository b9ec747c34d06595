#include "attribute_extractor.h"

#include "plugin/registry.h"

#include <string>

namespace llmd::plugins {
namespace {

class DcgmExtractor final : public AttributeExtractor {
 public:
  explicit DcgmExtractor(const plugin::Context& context)
      : AttributeExtractor({{.key = "GPUUtilization/" + std::string(context.name),
                             .series = {.family = "DCGM_FI_DEV_GPU_UTIL", .labels = {}},
                             .largest = true,
                             .own_label = "pod",
                             .factor = 0.01}}) {}
};

}  // namespace

const plugin::Descriptor& dcgm_extractor() {
  static const auto descriptor = plugin::describe<DcgmExtractor>(
      {.type = "dcgm-extractor",
       .kind = "extractor",
       .summary = "Reads the attribute GPUUtilization, 0 to 1: that of the busiest GPU whose label "
                  "pod is the endpoint's name, or which has none."});
  return descriptor;
}

}  // namespace llmd::plugins
