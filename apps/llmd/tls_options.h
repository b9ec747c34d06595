#pragma once

#include "base/result.h"
#include "fleet/upstream_tls.h"
#include "metric/registry.h"
#include "tls/context.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace llmd {

/// TLS of the port that serves clients or proxies.
struct ServingTlsOptions {
  bool secure = false;
  std::string cert_path;       // directory with tls.crt and tls.key; "": self-signed
  std::string client_ca_file;  // "": clients need no certificate
  bool reload = false;
  tls::Version version_min = tls::Version::k12;
  std::vector<std::string> suites;
};

/// TLS of the admin port: plain HTTP without `cert_dir`.
struct MetricsTlsOptions {
  std::string cert_dir;
  std::string client_ca_file;
  bool endpoint_auth = true;
};

/// TLS towards endpoints with the scheme https.
struct UpstreamTlsOptions {
  std::string ca_file;  // "": the system's authorities
  std::string client_cert;
  std::string client_key;
  std::string server_name;
  bool skip_verify = false;
};

/// The flags of all three. Together with what they default to, `serving` says whether serving is
/// secure unless told otherwise.
struct TlsOptions {
  ServingTlsOptions serving;
  MetricsTlsOptions metrics;
  UpstreamTlsOptions upstream;
};

void add_tls_flags(CLI::App& app, TlsOptions& options);
/// What only all flags together can tell; throws CLI::ValidationError. Requires: parsed.
void check_tls_flags(const CLI::App& app, const TlsOptions& options);

/// The contexts that the options ask for; null for plain ports. Errors name the flag and the file.
Result<std::shared_ptr<tls::Context>> serving_context(const ServingTlsOptions& options,
                                                      std::vector<std::string_view> protocols,
                                                      metric::Registry& metrics);
Result<std::shared_ptr<tls::Context>> metrics_context(const TlsOptions& options,
                                                      metric::Registry& metrics);
Result<fleet::UpstreamTls> upstream_tls(const UpstreamTlsOptions& options,
                                        metric::Registry& metrics);

}  // namespace llmd
