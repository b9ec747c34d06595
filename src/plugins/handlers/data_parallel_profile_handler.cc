#include "stages.h"

#include "plugin/registry.h"
#include "schedule/interfaces.h"

namespace llmd::plugins {
namespace {

struct Params {
  uint16_t primary_port = 8000;
};

const plugin::Params<Params>& table() {
  static const plugin::Params<Params> params = {
      plugin::field("primaryPort", &Params::primary_port, "",
                    "Port that requests go to instead of the endpoint's own, which stands in the "
                    "header x-data-parallel-host-port.")
          .min(1),
  };
  return params;
}

class DataParallelProfileHandler final : public schedule::ProfileHandler {
 public:
  DataParallelProfileHandler(Params p, const plugin::Context&) : port_(p.primary_port) {}

  Status bind(std::span<const std::string> names) override {
    if (names.size() == 1) return {};
    return fail(Code::kBadRequest,
                "runs exactly one profile; " + std::to_string(names.size()) + " are configured");
  }

  size_t next(schedule::RequestContext& context, std::span<uint16_t> run) const override {
    if (has_run(context, 0)) return 0;
    run[0] = 0;
    return 1;
  }

  Status finish(schedule::RequestContext& context) const override {
    if (!succeeded(context, 0))
      return fail(Code::kUnknown, "the scheduling profile found no endpoint");
    context.primary = 0;
    send_through_port(context, 0, port_);
    return {};
  }

 private:
  const uint16_t port_;
};

}  // namespace

const plugin::Descriptor& data_parallel_profile_handler() {
  static const auto descriptor = plugin::describe<DataParallelProfileHandler>(
      {.type = "data-parallel-profile-handler",
       .kind = "profile handler",
       .summary = "Runs the only profile over the ranks of data-parallel servers and sends the "
                  "request through the server's primary port."},
      table());
  return descriptor;
}

}  // namespace llmd::plugins
