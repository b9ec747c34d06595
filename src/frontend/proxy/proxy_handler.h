#pragma once

#include "grpc_relay.h"
#include "headers.h"

#include "frontend/proxy.h"
#include "http/client.h"
#include "http/http2_client.h"
#include "http/server.h"
#include "io/delayed_work.h"
#include "route/director.h"
#include "route/session.h"

#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace llmd::frontend {

enum class Protocol : uint8_t { kHttp1, kHttp2 };

/// What the connections of one loop share.
struct ProxyLoop {
  /// `budget` bounds the bodies of gRPC requests.
  ProxyLoop(io::Loop& loop, route::Director& director, const ProxyOptions& options,
            std::shared_ptr<io::ByteBudget> budget =
                std::make_shared<io::ByteBudget>(std::numeric_limits<uint64_t>::max()));
  ~ProxyLoop();

  /// The address of `endpoint`, parsed once per endpoint; null when it is not an address literal.
  const http::Destination* destination(const fleet::Endpoint& endpoint, Protocol protocol);
  /// Lets go of the kept connections to an endpoint that is gone.
  void purge(const fleet::Endpoint& endpoint);

  io::Loop& loop;
  const ProxyOptions& options;
  CredentialsPtr credentials;  // null: none are asked for or sent
  const std::shared_ptr<io::ByteBudget> budget;
  http::Client client;
  http::Http2Client http2_client;
  route::LoopDirector director;
  std::unique_ptr<http::Server> server;

 private:
  io::DelayedWork delayed_;
  std::vector<std::optional<http::Destination>> destinations_[2];  // by protocol and slot
};

/// One client connection of HTTP/1.1, or one stream of HTTP/2: its session, and the call to the
/// endpoint that serves the current request: over HTTP/1.1, or over HTTP/2 for gRPC.
class ProxyHandler final : public http::RequestHandler,
                           public http::CallHandler,
                           public route::SessionSink {
 public:
  explicit ProxyHandler(ProxyLoop& loop);

  void on_request(http::Exchange& exchange) override;
  void on_body(http::Exchange& exchange, std::string_view body) override;
  void on_request_end(http::Exchange& exchange, std::string_view body) override;
  void on_writable(http::Exchange& exchange) override;
  void on_refused(http::Exchange& exchange, int status, std::string_view what) override;
  void on_abort(http::Exchange& exchange, http::AbortCause cause) override;

  void forward(const route::Forward& forward) override;
  void reply(const route::Reply& reply) override;

  void on_sent(TimePoint offered) override;
  void on_inform(const http::ResponseHead& head) override;
  void on_response(const http::ResponseHead& head) override;
  void on_data(std::string_view data, bool last) override;
  void on_trailers(HeaderView trailers) override;
  void on_request_drained() override;
  void on_failure(http::Failure failure) override;

 private:
  bool begin_grpc(const http::RequestHead& head);
  void take_grpc(std::string_view data, bool last);
  void end_grpc(int status, std::string_view message);
  void abort_call();
  bool authenticate(HeaderView headers);
  void refuse(int status, std::string_view what);
  HeaderView heard(HeaderView headers);
  void collect_headers(std::span<const HeaderField> set_headers);
  void collect_body(std::span<const route::Splice> splices);
  void answer_error(const route::Reply& reply);

  ProxyLoop& loop_;
  route::Session session_;
  http::Call call_;
  std::unique_ptr<GrpcRelay> grpc_;  // null: the request is not gRPC
  http::Exchange* exchange_ = nullptr;
  std::string_view body_;
  std::string_view served_by_;
  CredentialsPtr credentials_;         // as they were when the request began
  const ApiClient* client_ = nullptr;  // null: nothing is known of it
  HeaderView heard_;                   // the request's headers, but those that count for nothing
  // Room that is reused from request to request.
  Nominated nominated_;
  std::vector<HeaderField> heard_fields_;
  std::vector<HeaderField> headers_;
  std::vector<std::string_view> pieces_;
  std::string text_;
};

}  // namespace llmd::frontend
