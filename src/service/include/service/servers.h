#pragma once

#include "base/clock.h"
#include "base/result.h"
#include "grpc/server.h"
#include "http/server.h"
#include "metric/registry.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace llmd::service {

struct ServersOptions {
  std::string host = "0.0.0.0";  // address literal
  uint16_t http_port = 0;        // 0: chosen by the system
  bool grpc_on_tcp = false;
  uint16_t grpc_port = 0;                         // 0: chosen by the system
  std::string socket_path;                        // gRPC on a unix socket; "": none
  size_t body_bytes_max = size_t{32} << 20;       // of a body or message
  size_t buffered_bytes_max = size_t{512} << 20;  // of all, over HTTP and gRPC each
};

/// HTTP and gRPC servers on one loop. Threading: the loop's thread; construct and destroy there
/// too, or while the loop does not run.
class Servers {
 public:
  Servers(io::Loop& loop, ServersOptions options,
          std::function<std::unique_ptr<http::RequestHandler>()> http_handler,
          const std::vector<grpc::Method>& methods, metric::Registry& metrics);
  ~Servers();

  /// Errors name the address.
  Status listen();
  uint16_t http_port() const;
  /// 0: not on TCP.
  uint16_t grpc_port() const;

  /// Stops accepting, lets open requests finish, and after `grace` aborts the rest. `done` runs
  /// when no connection is left. Call once.
  void stop(Nanos grace, std::move_only_function<void()> done);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace llmd::service
