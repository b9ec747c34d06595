#pragma once

#include "base/clock.h"
#include "base/result.h"
#include "fleet/fleet.h"
#include "fleet/upstream_tls.h"
#include "frontend/credentials.h"
#include "http/server_probe.h"
#include "metric/registry.h"
#include "tls/context.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace llmd::route {
class Director;
}

/// The embedded reverse proxy: HTTP/1.1 and HTTP/2 in, a route::Session per request, HTTP/1.1 out
/// to the chosen endpoint, or HTTP/2 for gRPC.
namespace llmd::frontend {

struct ProxyOptions {
  std::string host = "0.0.0.0";  // address literal
  uint16_t port = 8080;          // 0: chosen by the system
  size_t loops = 1;              // event loops, each with its own listener on the shared port
  size_t connections_max = 0;    // of clients, per loop; 0: no limit
  uint64_t body_bytes_max = 512u << 20;  // of a request; beyond it: 413
  size_t head_bytes_max = 64 * 1024;
  size_t headers_max = 256;         // lines
  size_t connections_per_peer = 0;  // over all loops; 0: no limit
  uint32_t streams_max = 256;       // these three as in http::ServerOptions
  uint32_t resets_per_second = 100;
  uint32_t control_frames_per_second = 100;
  uint64_t buffered_bytes_max = uint64_t{4} << 30;  // of request bodies, over all loops
  std::optional<http::ServerProbe> probe;           // counts limits that clients meet
  Nanos head_timeout = std::chrono::seconds(10);
  Nanos body_timeout = std::chrono::seconds(60);
  Nanos request_timeout = std::chrono::minutes(10);  // for a request to arrive whole
  Nanos idle_timeout = std::chrono::seconds(300);    // of a client's kept connection
  Nanos write_timeout = std::chrono::seconds(60);    // of a client that takes nothing
  Nanos connect_timeout = std::chrono::seconds(2);
  Nanos response_timeout{0};     // to the head of the answer; 0: none, as generation may take long
  Nanos stream_idle_timeout{0};  // between two reads of an answer; 0: none
  Nanos upstream_idle_timeout = std::chrono::seconds(4);
  size_t upstream_idle_max = 1024;    // kept connections per endpoint and loop
  std::optional<uint64_t> seed;       // of the loops' random choices; none: from the system
  std::shared_ptr<tls::Context> tls;  // towards clients; null: plain HTTP
  fleet::UpstreamTls upstream_tls;    // towards endpoints with the scheme https
  bool hide_endpoint = false;         // leave out the header x-llm-d-served-endpoint
  bool untrusted_clients = false;     // do not hear, nor pass on, what clients ask of the picker
  CredentialsPtr credentials;         // null: clients need no key and theirs is passed on
  metric::Counter refused_without_key, refused_with_unknown_key;
  /// Seconds from the last byte of a request to its first byte to the endpoint.
  std::optional<metric::Histogram> forward_delay;
};

/// Behaviour: the whole body is collected, scanned by the session as it arrives, and forwarded as
/// the original bytes with the session's splices. Answers are relayed read by read; a client that
/// reads slowly makes its endpoint wait. A client that leaves aborts its request upstream at once.
/// An endpoint that fails before its answer's head makes the session try another or reply; one that
/// breaks off later is shown to the client as a broken connection. Headers: see headers.h.
/// Threading: one control thread calls these functions; the loops are threads of the proxy.
class Proxy {
 public:
  /// All three outlive the proxy. Connections to endpoints that leave `fleet` are closed.
  Proxy(route::Director& director, fleet::Fleet& fleet, ProxyOptions options,
        const Clock& clock = real_clock());
  /// Stops without grace if still running.
  ~Proxy();
  Proxy(const Proxy&) = delete;
  Proxy& operator=(const Proxy&) = delete;

  /// Opens the listeners and starts the loops. Errors name the address.
  Status start();
  uint16_t port() const;

  /// Requests that begin from now on are held to `credentials`. Threading: any, also beside stop().
  void set_credentials(const CredentialsPtr& credentials);

  /// Refuses what waits for admission, stops accepting, lets open requests finish, and aborts what
  /// is left after `grace`. Blocks until the loops have ended.
  void stop(Nanos grace);

  /// Requests being received or answered, over all loops. Threading: any.
  size_t open_requests() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace llmd::frontend
