#include "commands.h"
#include "epp_options.h"
#include "picker_process.h"

#include "base/rng.h"
#include "frontend/ext_proc.h"
#include "grpc/health.h"
#include "grpc/server.h"

#include <fmt/format.h>

namespace llmd {
namespace {

constexpr std::string_view kExtProcService = "envoy.service.ext_proc.v3.ExternalProcessor";

/// What the health port may hold of its peers: checks are a few bytes each.
constexpr uint64_t kHealthBytesMax = 16u << 20;
constexpr uint32_t kHealthStreamsMax = 100;

frontend::ExtProcOptions ext_proc_options(const EppOptions& options, size_t loops) {
  frontend::ExtProcOptions o;
  o.host = options.host;
  o.port = options.grpc_port;
  o.loops = loops;
  o.seed = options.seed;
  o.limits.connections_max = options.connections_max;
  if (options.connections_per_peer > 0)
    o.limits.peer_limit =
        std::make_shared<io::PeerLimit>(options.connections_per_peer, random_seed());
  o.limits.streams_max = options.http2.streams_max;
  o.limits.header_list_bytes_max = static_cast<uint32_t>(options.header_list_bytes_max);
  o.limits.message_bytes_max = options.message_bytes_max;
  o.limits.resets_per_second = options.http2.resets_per_second;
  o.limits.control_frames_per_second = options.http2.control_frames_per_second;
  o.body_bytes_max = static_cast<uint64_t>(options.body_bytes_max);
  o.buffered_bytes_max = static_cast<uint64_t>(options.buffered_bytes_max);
  o.lean_headers = options.lean_headers;
  o.skip_response_body = options.skip_response_body;
  o.subset_filter = options.subset_filter;
  o.emit_scores = options.emit_scores;
  o.untrusted_clients = options.untrusted_clients;
  o.health_checking = options.health_checking;
  o.stream_metrics = options.stream_metrics;
  return o;
}

Result<int> serve(PickerProcess& picker, const EppOptions& options) {
  auto ext_proc_with = ext_proc_options(options, picker.loops());
  LLMD_TRY_ASSIGN(ext_proc_with.limits.tls, picker.serving_tls({tls::kHttp2}));
  frontend::ExtProc ext_proc(picker.director(), picker.metrics(), std::move(ext_proc_with));
  LLMD_TRY(ext_proc.start());

  // Without leader election every service name answers alike (spec 01 §11): the pool is known from
  // the start on, so only draining counts.
  grpc::Health health(
      [&picker](std::string_view) {
        return picker.draining() ? grpc::Serving::kNotServing : grpc::Serving::kServing;
      },
      {std::string(kExtProcService)});
  io::ByteBudget budget(kHealthBytesMax);
  grpc::Server health_server(
      picker.control(),
      {.host = options.host, .port = options.health_port, .streams_max = kHealthStreamsMax},
      health.methods(), budget);
  LLMD_TRY(health_server.listen());

  return picker.run({.address = fmt::format("{}:{}", options.host, ext_proc.port()),
                     .stop = [&ext_proc](Nanos grace) { ext_proc.stop(grace); },
                     .on_drain = [&health] { health.refresh(); },
                     .on_credentials = {}});
}

}  // namespace

int run_epp(int argc, char** argv) {
  EppOptions options;
  if (const auto code = parse_epp_options(options, argc, argv)) return *code;
  return run_picker("epp", options, {},
                    [&](PickerProcess& picker) { return serve(picker, options); });
}

}  // namespace llmd
