#include "fleet/metrics_source.h"
#include "plugin/registry.h"

namespace llmd::plugins {
namespace {

struct Params {
  std::string scheme = "http";
  std::string path = "/metrics";
  std::optional<uint16_t> port;
  bool insecure_skip_verify = true;
  std::string ca_cert_path;
  std::string client_cert_path;
  std::string client_key_path;
  std::optional<Nanos> interval;
};

const plugin::Params<Params>& table() {
  static const plugin::Params<Params> params = {
      plugin::field("scheme", &Params::scheme, "",
                    "How the page is fetched. https is not available in this build.")
          .one_of({"http", "https"}),
      plugin::field("path", &Params::path, "", "Path of the page."),
      plugin::field("port", &Params::port, "",
                    "Port of the page instead of the endpoint's own. Not for pools with several "
                    "ports an address.")
          .min(1),
      plugin::field("insecureSkipVerify", &Params::insecure_skip_verify, "",
                    "With https: accept any server certificate. A caCertPath turns this off."),
      plugin::field("caCertPath", &Params::ca_cert_path, "",
                    "With https: PEM file of the authorities that may sign server certificates."),
      plugin::field("clientCertPath", &Params::client_cert_path, "",
                    "With https: PEM file of the client certificate."),
      plugin::field("clientKeyPath", &Params::client_key_path, "",
                    "With https: PEM file of the client certificate's key."),
      plugin::field("interval", &Params::interval, "",
                    "Time between two fetches from one endpoint, instead of "
                    "--refresh-metrics-interval.")
          .positive(),
  };
  return params;
}

class MetricsDataSource final : public fleet::MetricsSource {
 public:
  static Result<std::unique_ptr<MetricsDataSource>> create(Params p, const plugin::Context&) {
    if (!p.path.starts_with('/'))
      return fail(Code::kBadRequest, "parameter 'path' must start with '/', not '" + p.path + "'");
    if (p.scheme == "https")
      return fail(Code::kBadRequest,
                  "parameter 'scheme': https is not available in this build; use http");
    if (p.client_cert_path.empty() != p.client_key_path.empty())
      return fail(Code::kBadRequest, "parameters 'clientCertPath' and 'clientKeyPath' go together");
    return std::make_unique<MetricsDataSource>(std::move(p));
  }

  explicit MetricsDataSource(Params p)
      : options_{.scheme = std::move(p.scheme),
                 .path = std::move(p.path),
                 .port = p.port,
                 .interval = p.interval} {}

  const Options& options() const override { return options_; }

 private:
  const Options options_;
};

}  // namespace

const plugin::Descriptor& metrics_data_source() {
  static const auto descriptor = plugin::describe<MetricsDataSource>(
      {.type = "metrics-data-source",
       .kind = "data source",
       .summary = "Fetches the Prometheus page of every endpoint."},
      table());
  return descriptor;
}

}  // namespace llmd::plugins
