#include "page_source.h"

namespace llmd::plugins {
namespace {

class MetricsDataSource final : public PageSource {
 public:
  using PageSource::PageSource;
  static Result<std::unique_ptr<MetricsDataSource>> create(const PageParams& p,
                                                           const plugin::Context& context) {
    LLMD_TRY_ASSIGN(auto options, page_options(p, context));
    return std::make_unique<MetricsDataSource>(std::move(options));
  }
};

}  // namespace

const plugin::Descriptor& metrics_data_source() {
  static const auto descriptor = plugin::describe<MetricsDataSource>(
      {.type = "metrics-data-source",
       .kind = "data source",
       .summary = "Fetches the Prometheus page of every endpoint."},
      page_params<PageParams>());
  return descriptor;
}

}  // namespace llmd::plugins
