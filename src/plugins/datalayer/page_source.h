#pragma once

#include "fleet/metrics_source.h"
#include "plugin/registry.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace llmd::plugins {

/// The parameters of sources that fetch a page of each endpoint. A source derives from this and
/// sets its own defaults.
struct PageParams {
  std::optional<std::string> scheme;
  std::string path = "/metrics";
  std::optional<uint16_t> port;
  bool insecure_skip_verify = true;
  std::string ca_cert_path;
  std::string client_cert_path;
  std::string client_key_path;
  std::optional<Nanos> interval;
};

/// Their table, with what P has of its own at the end.
template <class P, class... More>
plugin::Params<P> page_params(More... more) {
  using Text = std::string;
  return {
      plugin::field<P, std::optional<Text>>(
          "scheme", &P::scheme, "",
          "How the page is fetched. Not given: as the endpoint itself is reached.")
          .one_of({"http", "https"}),
      plugin::field<P, Text>("path", &P::path, "", "Path of the page."),
      plugin::field<P, std::optional<uint16_t>>(
          "port", &P::port, "",
          "Port of the page instead of the endpoint's own. Not for pools with several ports an "
          "address.")
          .min(1),
      plugin::field<P, bool>(
          "insecureSkipVerify", &P::insecure_skip_verify, "",
          "With https: accept any server certificate, unless caCertPath names authorities. "
          "Endpoints that are https themselves are verified as requests to them are."),
      plugin::field<P, Text>(
          "caCertPath", &P::ca_cert_path, "",
          "With https: PEM file of the authorities that may sign server certificates."),
      plugin::field<P, Text>("clientCertPath", &P::client_cert_path, "",
                             "With https: PEM file of the client certificate."),
      plugin::field<P, Text>("clientKeyPath", &P::client_key_path, "",
                             "With https: PEM file of the client certificate's key."),
      plugin::field<P, std::optional<Nanos>>(
          "interval", &P::interval, "",
          "Time between two fetches from one endpoint, instead of --refresh-metrics-interval.")
          .positive(),
      std::move(more)...,
  };
}

/// Checks `p` and makes a source's options of it.
Result<fleet::MetricsSource::Options> page_options(const PageParams& p,
                                                   const plugin::Context& context);

/// A source that is nothing but its options.
class PageSource : public fleet::MetricsSource {
 public:
  explicit PageSource(Options options) : options_(std::move(options)) {}
  const Options& options() const final { return options_; }

 private:
  const Options options_;
};

}  // namespace llmd::plugins
