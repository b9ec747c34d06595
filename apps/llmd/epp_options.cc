#include "epp_options.h"

#include "command_line.h"

#include "base/text.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace llmd {
namespace {

/// A message size of the reference: a quantity with an optional B, 0 or nothing for the default.
Result<uint64_t> parse_message_size(std::string_view text) {
  if (!text.empty() && (text.back() == 'B' || text.back() == 'b')) text.remove_suffix(1);
  LLMD_TRY_ASSIGN(const int64_t size, parse_quantity(text));
  if (size > UINT32_MAX) return fail(Code::kBadRequest, "must be below 4Gi");
  return static_cast<uint64_t>(size);
}

void add_message_size(CLI::App& app, const char* name, uint64_t* value, const char* help) {
  app.add_option_function<std::string>(
         name,
         [value, name](const std::string& text) {
           if (text.empty()) return;
           const auto size = parse_message_size(text);
           if (!size) throw CLI::ValidationError(name, size.error().message);
           if (value && *size > 0) *value = *size;
         },
         help)
      ->type_name("QUANTITY");
}

void add_reference_flags(CLI::App& app, EppOptions& o) {
  app.add_option("--host", o.host, "address to listen on");
  add_port(app, "--grpc-port", o.grpc_port, "port of the ext-proc service");
  add_port(app, "--grpc-health-port", o.health_port, "port of the health service");
  app.add_flag("--health-checking", o.health_checking,
               "answer health checks on the ext-proc port, too: SERVING while it is open");
  add_message_size(app, "--grpc-max-recv-msg-size", &o.message_bytes_max,
                   "largest message of a proxy (4Mi)");
  add_message_size(app, "--grpc-max-send-msg-size", nullptr,
                   "accepted; messages are sent in pieces of 62 kB");
  app.add_flag("!--disable-endpoint-subset-filter", o.subset_filter,
               "do not obey the proxy's subset hint");
  app.add_flag("--emit-endpoint-scores", o.emit_scores,
               "tell the candidates' scores in the dynamic metadata");
  app.add_flag("--enable-grpc-stream-metrics", o.stream_metrics, "extproc_streams_… metrics");
}

/// Flags that are accepted so that command lines of the reference work unchanged, and why nothing
/// follows from them.
struct Accepted {
  const char* name;
  const char* why;
};
constexpr Accepted kAccepted[] = {
    {"--pool-namespace", "used with Kubernetes only"},
    {"--pool-group", "used with Kubernetes only"},
    {"--enable-pprof", "there is no profiler"},
    {"--zap-devel", "lines are JSON"},
    {"--zap-encoder", "lines are JSON"},
    {"--zap-stacktrace-level", "there are no stack traces"},
    {"--zap-time-encoding", "times are epoch seconds"},
};

/// Flags whose effect would be missed.
constexpr const char* kUnavailable[] = {"--endpoint-selector", "--endpoint-target-ports",
                                        "--ha-enable-leader-election"};

void add_other_flags(CLI::App& app) {
  for (const auto& flag : kAccepted)
    app.add_option_function<std::string>(
           flag.name, [](const std::string&) {}, fmt::format("accepted: {}", flag.why))
        ->expected(0, 1)
        ->group("Accepted without effect");
  for (const auto* name : kUnavailable)
    app.add_option_function<std::string>(
           name,
           [name](const std::string& value) {
             if (value != "false")
               throw CLI::ValidationError(name, "needs Kubernetes, which this build does not have");
           },
           "")
        ->expected(0, 1)
        ->group("");
}

void add_own_flags(CLI::App& app, EppOptions& o) {
  app.add_flag("--lean-headers", o.lean_headers,
               "send back only headers that change, instead of all of them");
  app.add_option_function<std::string>(
         "--response-body", [&o](const std::string& v) { o.skip_response_body = v == "skip"; },
         "send: see answers' bodies; skip: ask the proxy to keep them, and lose usage and timing "
         "metrics and the exact end of a request's load")
      ->check(CLI::IsMember({"send", "skip"}))
      ->default_str("send");
  add_quantity(app, "--max-buffered-bytes", o.buffered_bytes_max,
               "of all peers together; requests beyond it get 503");
  add_http2_limits(app, o.http2);
  add_quantity(app, "--max-header-list", o.header_list_bytes_max, "of a call, uncompressed");
  app.add_option("--max-connections", o.connections_max, "per loop; 0: no limit")
      ->check(CLI::Range(0, 1 << 30));
  app.add_option("--max-connections-per-peer", o.connections_per_peer,
                 "more from one proxy's address are closed; 0: no limit")
      ->check(CLI::Range(0, 1 << 30));
}

}  // namespace

std::optional<int> parse_epp_options(EppOptions& o, int argc, char** argv) {
  CLI::App app("Endpoint picker for Envoy: an ext-proc server.", "llmd epp");
  app.option_defaults()->always_capture_default();
  add_reference_flags(app, o);
  add_own_flags(app, o);
  add_other_flags(app);
  return parse_picker_flags(app, o, argc, argv);
}

}  // namespace llmd
