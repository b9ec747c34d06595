#include "plugin/registry.h"
#include "schedule/interfaces.h"

namespace llmd::plugins {
namespace {

constexpr std::string_view kAnswerHeader = "x-conformance-test-served-endpoint";

class DestinationEndpointServedVerifier final : public schedule::ResponseHook {
 public:
  void on_response_head(schedule::RequestContext& context) const override {
    context.response_headers.set(
        kAnswerHeader, context.served.empty()
                           ? "fail: the proxy did not say which endpoint served the request"
                           : context.served);
  }
};

}  // namespace

const plugin::Descriptor& destination_endpoint_served_verifier() {
  static const auto descriptor = plugin::describe<DestinationEndpointServedVerifier>(
      {.type = "destination-endpoint-served-verifier",
       .kind = "response hook",
       .summary = "For conformance tests: tells the client in x-conformance-test-served-endpoint "
                  "which endpoint answered, as the proxy says.",
       .ignores_parameters = true});
  return descriptor;
}

}  // namespace llmd::plugins
