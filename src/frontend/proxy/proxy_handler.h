#pragma once

#include "headers.h"

#include "frontend/proxy.h"
#include "http/client.h"
#include "http/server.h"
#include "io/delayed_work.h"
#include "route/director.h"
#include "route/session.h"

#include <string>
#include <vector>

namespace llmd::frontend {

/// What the connections of one loop share.
struct ProxyLoop {
  ProxyLoop(io::Loop& loop, route::Director& director, const ProxyOptions& options);
  ~ProxyLoop();

  /// The address of `endpoint`, parsed once per endpoint; null when it is not an address literal.
  const http::Destination* destination(const fleet::Endpoint& endpoint);

  io::Loop& loop;
  const ProxyOptions& options;
  CredentialsPtr credentials;  // null: none are asked for or sent
  http::Client client;
  route::LoopDirector director;
  std::unique_ptr<http::Server> server;

 private:
  io::DelayedWork delayed_;
  std::vector<std::optional<http::Destination>> destinations_;  // by slot
};

/// One client connection: its session, and the call to the endpoint that serves the current
/// request.
class ProxyHandler final : public http::RequestHandler,
                           public http::CallHandler,
                           public route::SessionSink {
 public:
  explicit ProxyHandler(ProxyLoop& loop);

  void on_request(http::Exchange& exchange) override;
  void on_body(http::Exchange& exchange, std::string_view body) override;
  void on_request_end(http::Exchange& exchange, std::string_view body) override;
  void on_writable(http::Exchange& exchange) override;
  void on_abort(http::Exchange& exchange) override;

  void forward(const route::Forward& forward) override;
  void reply(const route::Reply& reply) override;

  void on_sent(TimePoint offered) override;
  void on_inform(const http::ResponseHead& head) override;
  void on_response(const http::ResponseHead& head) override;
  void on_data(std::string_view data, bool last) override;
  void on_failure(http::Failure failure) override;

 private:
  bool authenticate(HeaderView headers);
  HeaderView heard(HeaderView headers);
  void collect_headers(std::span<const HeaderField> set_headers);
  void collect_body(std::span<const route::Splice> splices);
  void answer_error(int status, std::string_view message, std::string_view type,
                    std::string_view drop_reason, std::string_view request_id);

  ProxyLoop& loop_;
  route::Session session_;
  http::Call call_;
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
