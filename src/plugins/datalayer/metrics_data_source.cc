#include "fleet/metrics_source.h"
#include "plugin/registry.h"

namespace llmd::plugins {
namespace {

struct Params {
  std::optional<std::string> scheme;
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
                    "How the page is fetched. Not given: as the endpoint itself is reached.")
          .one_of({"http", "https"}),
      plugin::field("path", &Params::path, "", "Path of the page."),
      plugin::field("port", &Params::port, "",
                    "Port of the page instead of the endpoint's own. Not for pools with several "
                    "ports an address.")
          .min(1),
      plugin::field(
          "insecureSkipVerify", &Params::insecure_skip_verify, "",
          "With https: accept any server certificate, unless caCertPath names authorities. "
          "Endpoints that are https themselves are verified as requests to them are."),
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
  static Result<std::unique_ptr<MetricsDataSource>> create(Params p,
                                                           const plugin::Context& context) {
    if (!p.path.starts_with('/'))
      return fail(Code::kBadRequest, "parameter 'path' must start with '/', not '" + p.path + "'");
    if (p.client_cert_path.empty() != p.client_key_path.empty())
      return fail(Code::kBadRequest, "parameters 'clientCertPath' and 'clientKeyPath' go together");
    LLMD_TRY_ASSIGN(auto tls, own_context(p, context));
    return std::make_unique<MetricsDataSource>(Options{.scheme = std::move(p.scheme),
                                                       .tls = std::move(tls),
                                                       .path = std::move(p.path),
                                                       .port = p.port,
                                                       .interval = p.interval});
  }

  explicit MetricsDataSource(Options options) : options_(std::move(options)) {}

  const Options& options() const override { return options_; }

 private:
  /// What this source alone trusts and shows; null when its parameters do not say.
  static Result<std::shared_ptr<tls::Context>> own_context(const Params& p,
                                                           const plugin::Context& context) {
    if (p.ca_cert_path.empty() && p.client_cert_path.empty() && p.insecure_skip_verify)
      return nullptr;
    return tls::Context::client({.ca_file = p.ca_cert_path,
                                 .certificate_file = p.client_cert_path,
                                 .key_file = p.client_key_path,
                                 .verify = !p.insecure_skip_verify || !p.ca_cert_path.empty()},
                                tls::Metrics::of(context.metrics, "scraping"));
  }

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
