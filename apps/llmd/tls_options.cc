#include "tls_options.h"

#include "base/clock.h"
#include "base/log.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <filesystem>

namespace llmd {
namespace {

/// Of certificates that this program makes itself; the reference's.
constexpr const char* kOrganization = "Inference Ext";

/// Flags that mean nothing on a plain port.
constexpr const char* kSecureOnly[] = {"--cert-path", "--client-ca-file"};

void add_serving_flags(CLI::App& app, ServingTlsOptions& o) {
  app.add_flag("--secure-serving", o.secure, "TLS on the serving port");
  app.add_option(
      "--cert-path", o.cert_path,
      "directory with tls.crt and tls.key; without it a self-signed certificate is made");
  app.add_flag("--enable-cert-reload", o.reload, "load certificates again when they change");
  app.add_option("--client-ca-file", o.client_ca_file,
                 "PEM file: peers need a certificate that one of these authorities has signed");
  app.add_option_function<std::string>(
         "--tls-min-version",
         [&o](const std::string& name) {
           const auto version = tls::parse_version(name);
           if (!version) throw CLI::ValidationError("--tls-min-version", version.error().message);
           if (name == "VersionTLS10" || name == "VersionTLS11")
             log::warn("--tls-min-version: TLS below 1.2 is not served", {{"asked", name}});
           o.version_min = *version;
         },
         "VersionTLS12 or VersionTLS13")
      ->default_str("VersionTLS12");
  app.add_option_function<std::vector<std::string>>(
         "--tls-cipher-suites",
         [&o](const std::vector<std::string>& names) {
           const auto list = tls::parse_suites(names);
           if (!list) throw CLI::ValidationError("--tls-cipher-suites", list.error().message);
           o.suites = names;
         },
         "suites for TLS 1.2 by their names in Go, separated by commas; those of TLS 1.3 are fixed")
      ->delimiter(',');
}

void add_metrics_flags(CLI::App& app, MetricsTlsOptions& o) {
  app.add_option("--metrics-cert-dir", o.cert_dir,
                 "directory with tls.crt and tls.key for the admin port; without it plain HTTP");
  app.add_option("--metrics-client-ca-file", o.client_ca_file,
                 "PEM file: readers of the admin port need a certificate signed by one of these");
  app.add_flag("--metrics-endpoint-auth", o.endpoint_auth,
               "ask Kubernetes who may read the admin port; without Kubernetes nobody is asked");
}

void add_upstream_flags(CLI::App& app, UpstreamTlsOptions& o) {
  app.add_option("--upstream-ca-file", o.ca_file,
                 "PEM file of those who sign certificates of https endpoints; else the system's");
  app.add_option("--upstream-client-cert", o.client_cert,
                 "PEM file of the certificate that https endpoints are shown");
  app.add_option("--upstream-client-key", o.client_key, "PEM file of its key");
  app.add_option(
      "--upstream-server-name", o.server_name,
      "name that certificates of https endpoints must be for, instead of each one's own");
  app.add_flag("--upstream-insecure-skip-verify", o.skip_verify,
               "accept any certificate of an https endpoint");
}

std::string in_directory(const std::string& directory, const char* file) {
  return (std::filesystem::path(directory) / file).string();
}

template <class T>
Result<T> with_flag(Result<T> result, std::string_view flag) {
  if (!result) return fail(std::move(result).error().in(flag));
  return result;
}

}  // namespace

void add_tls_flags(CLI::App& app, TlsOptions& o) {
  add_serving_flags(app, o.serving);
  add_metrics_flags(app, o.metrics);
  add_upstream_flags(app, o.upstream);
}

void check_tls_flags(const CLI::App& app, const TlsOptions& o) {
  if (!o.serving.secure) {
    const bool asked_for_plain = app.count("--secure-serving") > 0;
    for (const auto* flag : kSecureOnly) {
      if (app.count(flag) == 0) continue;
      if (!asked_for_plain) throw CLI::ValidationError(flag, "needs --secure-serving");
      log::warn("without effect, as --secure-serving is off", {{"flag", flag}});
    }
  }
  if (o.metrics.cert_dir.empty() && !o.metrics.client_ca_file.empty())
    throw CLI::ValidationError("--metrics-client-ca-file", "needs --metrics-cert-dir");
  if (!o.metrics.cert_dir.empty() && o.metrics.client_ca_file.empty() && !o.metrics.endpoint_auth)
    throw CLI::ValidationError("--metrics-cert-dir",
                               "needs --metrics-client-ca-file or --metrics-endpoint-auth");
  if (o.upstream.client_cert.empty() != o.upstream.client_key.empty())
    throw CLI::ValidationError("--upstream-client-cert and --upstream-client-key go together");
}

Result<std::shared_ptr<tls::Context>> serving_context(const ServingTlsOptions& o,
                                                      std::vector<std::string_view> protocols,
                                                      metric::Registry& metrics) {
  if (!o.secure) return nullptr;
  tls::ServerOptions options;
  options.client_ca_file = o.client_ca_file;
  options.protocols = std::move(protocols);
  options.version_min = o.version_min;
  options.suites = o.suites;
  if (o.cert_path.empty()) {
    const TimePoint before = real_clock().now();
    LLMD_TRY_ASSIGN(options.pair, tls::make_self_signed(kOrganization, real_clock().wall()));
    log::info(
        "a self-signed certificate was made: peers cannot verify it; --cert-path names a "
        "directory with a better one",
        {{"key", "RSA 4096"}, {"ms", millis(real_clock().now() - before)}});
  } else {
    options.certificate_file = in_directory(o.cert_path, "tls.crt");
    options.key_file = in_directory(o.cert_path, "tls.key");
  }
  return with_flag(tls::Context::server(std::move(options), tls::Metrics::of(metrics, "serving")),
                   o.client_ca_file.empty() ? "--cert-path" : "--cert-path, --client-ca-file");
}

Result<std::shared_ptr<tls::Context>> metrics_context(const TlsOptions& o,
                                                      metric::Registry& metrics) {
  if (o.metrics.cert_dir.empty()) return nullptr;
  tls::ServerOptions options;
  options.certificate_file = in_directory(o.metrics.cert_dir, "tls.crt");
  options.key_file = in_directory(o.metrics.cert_dir, "tls.key");
  options.client_ca_file = o.metrics.client_ca_file;
  options.version_min = o.serving.version_min;
  options.suites = o.serving.suites;
  auto context =
      with_flag(tls::Context::server(std::move(options), tls::Metrics::of(metrics, "metrics")),
                o.metrics.client_ca_file.empty() ? "--metrics-cert-dir"
                                                 : "--metrics-cert-dir, --metrics-client-ca-file");
  if (context && o.metrics.client_ca_file.empty())
    log::warn(
        "--metrics-endpoint-auth needs Kubernetes: /metrics answers anybody, over TLS; "
        "--metrics-client-ca-file asks for certificates");
  return context;
}

Result<fleet::UpstreamTls> upstream_tls(const UpstreamTlsOptions& o, metric::Registry& metrics) {
  if (o.skip_verify)
    log::warn(
        "--upstream-insecure-skip-verify: whoever sits between here and an https endpoint "
        "can read and change everything");
  LLMD_TRY_ASSIGN(auto context,
                  with_flag(tls::Context::client({.ca_file = o.ca_file,
                                                  .certificate_file = o.client_cert,
                                                  .key_file = o.client_key,
                                                  .verify = !o.skip_verify},
                                                 tls::Metrics::of(metrics, "upstream")),
                            "--upstream-ca-file, --upstream-client-cert, --upstream-client-key"));
  return fleet::UpstreamTls{.context = std::move(context),
                            .server_name = o.server_name,
                            .chosen = !o.ca_file.empty() || o.skip_verify};
}

}  // namespace llmd
