#pragma once

#include "fleet/address.h"
#include "fleet/endpoint.h"
#include "http/client.h"
#include "io/loop.h"

#include <optional>
#include <string>
#include <string_view>

/// JSON asked of services beside the request path.
namespace llmd::fetch {

/// A server that is asked by name or address. The name is looked up when the server is first
/// needed, and again after it could not be reached, at most every kLookupInterval.
/// Threading: one loop, which a lookup may block.
class Server {
 public:
  static constexpr Nanos kLookupInterval = std::chrono::seconds(5);

  /// `context` is for https; null: the server cannot be reached that way.
  Server(fleet::EndpointSpec spec, const fleet::Resolver& resolver,
         std::shared_ptr<tls::Context> context)
      : spec_(std::move(spec)), resolver_(resolver), context_(std::move(context)) {}

  /// Null while the name means nothing.
  const http::Destination* destination(TimePoint now);
  void could_not_be_reached() { reached_ = false; }
  /// "host:port"
  const std::string& name() const { return spec_.name; }

 private:
  const fleet::EndpointSpec spec_;
  const fleet::Resolver& resolver_;
  const std::shared_ptr<tls::Context> context_;
  std::optional<http::Destination> destination_;
  bool reached_ = true;
  TimePoint next_lookup_{};
  uint64_t generation_ = 0;
};

/// One POST of JSON and its answer, within a time. Reused. Threading: one loop.
class Post : http::CallHandler {
 public:
  static constexpr size_t kRefusalBytesMax = 1024;  // that are told of an answer without success

  Post(io::Loop& loop, http::Client& client, size_t answer_bytes_max)
      : loop_(loop), answer_bytes_max_(answer_bytes_max), call_(client, *this), timer_(loop) {}
  virtual ~Post() { call_.abort(); }

  bool active() const { return server_ != nullptr; }

 protected:
  /// Requires: not active. `target` is static.
  void start(Server& server, std::string_view target, std::string body, Nanos timeout);

  /// Bytes of an answer with a status of success.
  virtual void on_answer(std::string_view /*bytes*/) {}
  /// The post has ended, and may be started anew. `why` is "" when it succeeded; a status of
  /// another kind comes with the beginning of the answer.
  virtual void on_ended(std::string_view why, bool reached) = 0;

 private:
  void on_response(const http::ResponseHead& head) final { status_ = head.status; }
  void on_data(std::string_view data, bool last) final;
  void on_failure(http::Failure failure) final;
  void end(std::string_view why, bool reached = true);

  io::Loop& loop_;
  const size_t answer_bytes_max_;
  http::Call call_;
  io::Timer timer_;
  Server* server_ = nullptr;
  std::string body_;
  std::string_view piece_;
  int status_ = 0;
  std::string refusal_;
  size_t answer_bytes_ = 0;
};

}  // namespace llmd::fetch
