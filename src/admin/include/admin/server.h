#pragma once

#include "base/result.h"
#include "io/loop.h"
#include "metric/registry.h"
#include "route/director.h"
#include "tls/context.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace llmd::admin {

struct Options {
  std::string host = "0.0.0.0";
  uint16_t port = 9090;     // 0: chosen by the system
  uint16_t ready_port = 0;  // a second listener that serves the health paths only; 0: none
  /// What `Authorization: Bearer …` must hold for the /debug pages; "": they answer peers on the
  /// loopback interface only, and to a Host that is an address or localhost.
  std::string debug_token;
  std::shared_ptr<tls::Context> tls;  // of `port`; null: plain HTTP, as the ready port always is
};

/// The token in `path`: the file's one line. Errors name the file, never its content.
Result<std::string> read_token_file(const std::string& path);

/// What operators and their tools read: GET /metrics, /healthz, /readyz (also /ready), the pages
/// below /debug (decisions, endpoints, flow, plugins, plugins/state), and at / a page for people
/// that shows them. A port of its own, so that clients of the proxy never reach it. Threading: the
/// loop's thread; construct and destroy there too, or while the loop does not run.
class Server {
 public:
  /// `ready` answers /readyz: "" when requests can be served, else why not.
  Server(io::Loop& loop, const Options& options, metric::Registry& metrics,
         const route::Director& director, std::function<std::string()> ready);
  ~Server();

  /// Errors name the address.
  Status listen();
  uint16_t port() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace llmd::admin
