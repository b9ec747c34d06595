#pragma once

#include "base/clock.h"
#include "base/result.h"
#include "grpc/server.h"
#include "metric/registry.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace llmd::route {
class Director;
}

/// The endpoint picker behind Envoy: a gRPC service that is asked about every HTTP request.
namespace llmd::frontend {

struct ExtProcOptions {
  std::string host = "0.0.0.0";  // address literal
  uint16_t port = 9002;          // 0: chosen by the system
  size_t loops = 1;
  grpc::ServerOptions limits;                // host and port do not count
  uint64_t body_bytes_max = 512u << 20;      // of a request; beyond it: 413
  uint64_t buffered_bytes_max = 4ull << 30;  // of all requests together; beyond it: 503
  bool lean_headers = false;        // send only headers that change, instead of all of them
  bool skip_response_body = false;  // ask the proxy to keep answers' bodies to itself
  bool subset_filter = true;        // obey the subset hint of the proxy
  bool emit_scores = false;         // tell the candidates' scores as dynamic metadata
  bool untrusted_clients = false;   // do not hear, and take off, what clients ask of the picker
  bool health_checking = false;     // answer health checks on this port, always SERVING
  bool stream_metrics = false;      // extproc_streams_…
  std::optional<uint64_t> seed;     // of the loops' random choices; none: from the system
};

/// Serves envoy.service.ext_proc.v3.ExternalProcessor in body mode FULL_DUPLEX_STREAMED. One
/// listener accepts and hands each connection to the loop that has the fewest: a proxy opens one a
/// worker and keeps it. Threading: one control thread calls these functions; the loops are threads
/// of this object.
class ExtProc {
 public:
  /// Both outlive this object.
  ExtProc(route::Director& director, metric::Registry& metrics, ExtProcOptions options,
          const Clock& clock = real_clock());
  /// Stops without grace if still running.
  ~ExtProc();
  ExtProc(const ExtProc&) = delete;
  ExtProc& operator=(const ExtProc&) = delete;

  /// Opens the listener and starts the loops. Errors name the address.
  Status start();
  uint16_t port() const;

  /// Refuses what waits for admission, stops accepting, announces the end to the peers, lets open
  /// streams finish, and ends what is left after `grace`. Blocks until the loops have ended.
  void stop(Nanos grace);

  /// Streams not yet ended, over all loops. Threading: any.
  size_t open_streams() const;
  /// Connections of loop `index`. Threading: any.
  size_t connections(size_t index) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace llmd::frontend
