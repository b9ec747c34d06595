#include "page_source.h"

namespace llmd::plugins {
namespace {

/// What this source alone trusts and shows; null when its parameters do not say.
Result<std::shared_ptr<tls::Context>> own_context(const PageParams& p,
                                                  const plugin::Context& context) {
  if (p.ca_cert_path.empty() && p.client_cert_path.empty() && p.insecure_skip_verify)
    return nullptr;
  return tls::Context::client({.ca_file = p.ca_cert_path,
                               .certificate_file = p.client_cert_path,
                               .key_file = p.client_key_path,
                               .verify = !p.insecure_skip_verify || !p.ca_cert_path.empty()},
                              tls::Metrics::of(context.metrics, "scraping"));
}

}  // namespace

Result<fleet::MetricsSource::Options> page_options(const PageParams& p,
                                                   const plugin::Context& context) {
  if (!p.path.starts_with('/'))
    return fail(Code::kBadRequest, "parameter 'path' must start with '/', not '" + p.path + "'");
  if (p.client_cert_path.empty() != p.client_key_path.empty())
    return fail(Code::kBadRequest, "parameters 'clientCertPath' and 'clientKeyPath' go together");
  LLMD_TRY_ASSIGN(auto tls, own_context(p, context));
  return fleet::MetricsSource::Options{.scheme = p.scheme,
                                       .tls = std::move(tls),
                                       .path = p.path,
                                       .port = p.port,
                                       .interval = p.interval};
}

}  // namespace llmd::plugins
