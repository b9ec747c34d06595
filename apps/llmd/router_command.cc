#include "commands.h"
#include "picker_process.h"
#include "router_options.h"

#include "base/log.h"
#include "frontend/proxy.h"

#include <fmt/format.h>

#include <array>

namespace llmd {
namespace {

constexpr double kOverheadBuckets[] = {.00001, .00002, .00005, .0001, .00015, .0002, .0003,
                                       .0005,  .001,   .002,   .005,  .01,    .05,   .1};

frontend::ProxyOptions proxy_options(const RouterOptions& options, PickerProcess& picker) {
  frontend::ProxyOptions o;
  o.host = options.host;
  o.port = options.port;
  o.loops = picker.loops();
  o.seed = options.seed;
  o.body_bytes_max = static_cast<uint64_t>(options.body_bytes_max);
  o.head_bytes_max = static_cast<size_t>(options.header_bytes_max);
  o.headers_max = options.headers_max;
  o.connections_max = options.connections_max;
  o.connections_per_peer = options.connections_per_peer;
  o.streams_max = options.http2.streams_max;
  o.resets_per_second = options.http2.resets_per_second;
  o.control_frames_per_second = options.http2.control_frames_per_second;
  o.buffered_bytes_max = static_cast<uint64_t>(options.buffered_bytes_max);
  o.probe.emplace(picker.metrics());
  o.head_timeout = options.header_timeout;
  o.body_timeout = options.body_idle_timeout;
  o.request_timeout = options.request_timeout;
  o.connect_timeout = options.connect_timeout;
  o.response_timeout = options.first_byte_timeout;
  o.stream_idle_timeout = options.stream_idle_timeout;
  o.hide_endpoint = options.hide_served_endpoint;
  o.upstream_tls = picker.upstream_tls();
  o.untrusted_clients = options.untrusted_clients;
  o.credentials = picker.credentials();
  auto& refusals = picker.metrics().family({"llmd_client_auth_refusals_total",
                                            metric::Kind::kCounter,
                                            "Requests refused with 401, by what was wrong.",
                                            {"reason"},
                                            {},
                                            {}});
  o.refused_without_key = refusals.counter(std::array<std::string_view, 1>{"missing"});
  o.refused_with_unknown_key = refusals.counter(std::array<std::string_view, 1>{"unknown"});
  o.forward_delay = picker.metrics()
                        .family({"llmd_router_overhead_seconds",
                                 metric::Kind::kHistogram,
                                 "Time from reading a request's last byte to offering its first "
                                 "byte for the endpoint.",
                                 {},
                                 kOverheadBuckets,
                                 {}})
                        .histogram({});
  return o;
}

/// Waits without an end are a choice that an operator should know of.
void warn_of_endless_waits(const RouterOptions& options) {
  if (options.first_byte_timeout == Nanos(0))
    log::warn(
        "--first-byte-timeout is off: a stalled endpoint holds its requests until clients leave");
  if (options.stream_idle_timeout == Nanos(0))
    log::warn("--stream-idle-timeout is off: a stalled stream is held until its client leaves");
}

}  // namespace

int run_router(int argc, char** argv) {
  RouterOptions options;
  if (const auto code = parse_router_options(options, argc, argv)) return *code;
  return run_picker(
      "router", options, {.retry = options.retry, .ejection = options.ejection},
      [&](PickerProcess& picker) -> Result<int> {
        auto proxy_with = proxy_options(options, picker);
        LLMD_TRY_ASSIGN(proxy_with.tls, picker.serving_tls({tls::kHttp2, tls::kHttp1}));
        frontend::Proxy proxy(picker.director(), picker.fleet(), std::move(proxy_with));
        LLMD_TRY(proxy.start());
        warn_of_endless_waits(options);
        return picker.run(
            {.address = fmt::format("{}:{}", options.host, proxy.port()),
             .stop = [&proxy](Nanos grace) { proxy.stop(grace); },
             .on_drain = {},
             .on_credentials =
                 [&proxy](const frontend::CredentialsPtr& c) { proxy.set_credentials(c); }});
      });
}

}  // namespace llmd
