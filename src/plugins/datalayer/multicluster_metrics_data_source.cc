#include "page_source.h"

namespace llmd::plugins {
namespace {

struct Params : PageParams {
  Params() {
    scheme = "https";
    insecure_skip_verify = false;
  }
};

class MulticlusterMetricsDataSource final : public PageSource {
 public:
  using PageSource::PageSource;
  static Result<std::unique_ptr<MulticlusterMetricsDataSource>> create(
      const Params& p, const plugin::Context& context) {
    LLMD_TRY_ASSIGN(auto options, page_options(p, context));
    options.placed_by_labels = true;
    return std::make_unique<MulticlusterMetricsDataSource>(std::move(options));
  }
};

}  // namespace

const plugin::Descriptor& multicluster_metrics_data_source() {
  static const auto descriptor = plugin::describe<MulticlusterMetricsDataSource>(
      {.type = "multicluster-metrics-data-source",
       .kind = "data source",
       .summary = "Fetches the page of the picker of every cluster, each an endpoint here; its "
                  "labels metricsAddress (an IP address) and metricsPort say where that is not at "
                  "the endpoint's own.",
       .stability = plugin::Stability::kAlpha},
      page_params<Params>());
  return descriptor;
}

}  // namespace llmd::plugins
