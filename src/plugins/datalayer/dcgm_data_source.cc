#include "page_source.h"

namespace llmd::plugins {
namespace {

struct Params : PageParams {
  Params() {
    scheme = "http";
    port = 9400;
  }
  bool use_node_address = false;
};

plugin::Params<Params> table() {
  return page_params<Params>(plugin::field(
      "useNodeAddress", &Params::use_node_address, "",
      "Ask at the address of the endpoint's node. Has no effect where that is not known, as with "
      "endpoints from flags and files: their own address is asked."));
}

class DcgmDataSource final : public PageSource {
 public:
  using PageSource::PageSource;
  static Result<std::unique_ptr<DcgmDataSource>> create(const Params& p,
                                                        const plugin::Context& context) {
    LLMD_TRY_ASSIGN(auto options, page_options(p, context));
    return std::make_unique<DcgmDataSource>(std::move(options));
  }
};

}  // namespace

const plugin::Descriptor& dcgm_data_source() {
  static const auto descriptor = plugin::describe<DcgmDataSource>(
      {.type = "dcgm-data-source",
       .kind = "data source",
       .summary = "Fetches the page of NVIDIA's DCGM exporter beside every endpoint."},
      table());
  return descriptor;
}

}  // namespace llmd::plugins
