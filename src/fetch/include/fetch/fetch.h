#pragma once

#include "fetch/server.h"
#include "io/loop.h"

#include <string_view>

/// What is asked of services beside the request path.
namespace llmd::fetch {

/// One call to a server and its answer, within a time. Reused. Threading: one loop.
class Fetch : protected http::CallHandler {
 public:
  virtual ~Fetch() = default;
  bool active() const { return server_ != nullptr; }

 protected:
  explicit Fetch(io::Loop& loop) : loop_(loop), timer_(loop) {}

  /// Where to; null: nowhere, which on_ended() tells from the loop. Requires: not active.
  const http::Destination* begin(Server& server, Nanos timeout);
  void end(std::string_view why, bool reached = true);

  /// The call has ended, and may be started anew. `why` is "" when it succeeded.
  virtual void on_ended(std::string_view why, bool reached) = 0;
  virtual void abort() = 0;

 private:
  void on_failure(http::Failure failure) final;

  io::Loop& loop_;
  io::Timer timer_;
  Server* server_ = nullptr;
};

}  // namespace llmd::fetch
