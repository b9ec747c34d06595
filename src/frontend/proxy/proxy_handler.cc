#include "proxy_handler.h"

#include "client_headers.h"
#include "error_body.h"

#include "base/check.h"
#include "base/log.h"
#include "base/secret.h"
#include "base/text.h"
#include "grpc/header_values.h"
#include "http/grpc_status.h"

#include <algorithm>

namespace llmd::frontend {

namespace {

constexpr std::string_view kServedEndpoint = "x-llm-d-served-endpoint";
constexpr std::string_view kDropReason = "x-llm-d-request-dropped-reason";
constexpr std::string_view kRequestId = "x-request-id";

http::ClientOptions client_options(const ProxyOptions& options) {
  http::ClientOptions client;
  client.connect_timeout = options.connect_timeout;
  client.response_timeout = options.response_timeout;
  client.body_timeout = options.stream_idle_timeout;
  client.idle_timeout = options.upstream_idle_timeout;
  client.idle_max = options.upstream_idle_max;
  client.resend_stale = false;  // the session decides
  return client;
}

route::UpstreamFailure translate(http::Failure failure) {
  switch (failure) {
    case http::Failure::kConnect:
      return route::UpstreamFailure::kConnect;
    case http::Failure::kStale:
      return route::UpstreamFailure::kStale;
    case http::Failure::kUnsent:
      return route::UpstreamFailure::kUnsent;
    case http::Failure::kReset:
      return route::UpstreamFailure::kReset;
    case http::Failure::kBroken:
      return route::UpstreamFailure::kBroken;
    case http::Failure::kTimeout:
      return route::UpstreamFailure::kTimeout;
    case http::Failure::kProtocol:
      break;
  }
  return route::UpstreamFailure::kProtocol;
}

bool is_grpc(const http::RequestHead& head) {
  return head.http2 && head.headers.get("content-type").starts_with("application/grpc");
}

schedule::EndCause translate(http::AbortCause cause) {
  switch (cause) {
    case http::AbortCause::kClientGone:
      return schedule::EndCause::kClientDisconnect;
    case http::AbortCause::kClientStalled:
      return schedule::EndCause::kClientStalled;
    case http::AbortCause::kShutdown:
      return schedule::EndCause::kShutdown;
    case http::AbortCause::kBadRequest:
      break;
  }
  return schedule::EndCause::kError;
}

Code code_of(int status) {
  if (status == 401) return Code::kUnauthorized;
  if (status >= 500) return status == 503 ? Code::kServiceUnavailable : Code::kInternal;
  return status == 413 || status == 431 ? Code::kResourceExhausted : Code::kBadRequest;
}

bool is_among(std::span<const HeaderField> fields, std::string_view name) {
  return std::ranges::any_of(
      fields, [&](const auto& field) { return equals_ignore_case(field.name, name); });
}

}  // namespace

ProxyLoop::ProxyLoop(io::Loop& l, route::Director& shared, const ProxyOptions& o,
                     std::shared_ptr<io::ByteBudget> b)
    : loop(l),
      options(o),
      credentials(o.credentials ? std::make_shared<const Credentials>(*o.credentials) : nullptr),
      budget(std::move(b)),
      client(l, client_options(o)),
      http2_client(l, client_options(o), *budget),
      director(shared, {.executor = l,
                        .rng = l.rng(),
                        .index = l.index(),
                        .after =
                            [this](Nanos delay, std::move_only_function<void()> work) {
                              delayed_.run_after(delay, std::move(work));
                            }}),
      delayed_(l) {}

ProxyLoop::~ProxyLoop() = default;

const http::Destination* ProxyLoop::destination(const fleet::Endpoint& endpoint,
                                                Protocol protocol) {
  auto& destinations = destinations_[static_cast<size_t>(protocol)];
  if (endpoint.slot() >= destinations.size()) destinations.resize(endpoint.slot() + 1);
  auto& known = destinations[endpoint.slot()];
  if (!known || known->generation != endpoint.generation()) {
    const auto address = io::SocketAddress::parse(endpoint.spec().address, endpoint.spec().port);
    if (!address) return nullptr;
    known = http::Destination{*address, endpoint.generation(), nullptr};
    if (endpoint.spec().scheme == "https")
      known->tls = options.upstream_tls.target(
          endpoint.spec(), protocol == Protocol::kHttp2 ? tls::kHttp2 : tls::kHttp1);
  }
  return &*known;
}

void ProxyLoop::purge(const fleet::Endpoint& endpoint) {
  if (const auto* gone = destination(endpoint, Protocol::kHttp1)) client.purge(*gone);
  if (const auto* gone = destination(endpoint, Protocol::kHttp2)) http2_client.purge(*gone);
}

ProxyHandler::ProxyHandler(ProxyLoop& loop)
    : loop_(loop), session_(loop.director, *this), call_(loop.client, *this) {}

void ProxyHandler::on_request(http::Exchange& exchange) {
  exchange_ = &exchange;
  body_ = {};
  served_by_ = {};
  const auto& head = exchange.head();
  credentials_ = loop_.credentials;
  if (head.http2 && !begin_grpc(head)) return;
  if (!authenticate(head.headers)) return;
  heard_ = heard(head.headers);
  session_.on_headers(head.target, heard_, head.framing == http::Framing::kNone);
}

/// Prepares for a gRPC request, if it is one. False: it is refused.
bool ProxyHandler::begin_grpc(const http::RequestHead& head) {
  if (!is_grpc(head)) return true;
  grpc_ = std::make_unique<GrpcRelay>(loop_.http2_client, *this, *loop_.budget);
  exchange_->stream_body();
  const auto timeout = head.headers.find("grpc-timeout");
  if (!timeout) return true;
  const auto limit = grpc::parse_timeout(*timeout);
  if (!limit) {
    refuse(400, "malformed grpc-timeout");
    return false;
  }
  grpc_->deadline.arm(*limit, [this] {
    if (!exchange_->ended()) session_.refuse(504, {Code::kUnknown, "the deadline has passed", {}});
  });
  return true;
}

void ProxyHandler::take_grpc(std::string_view data, bool last) {
  switch (grpc_->take(*exchange_, data, last, loop_.options.body_bytes_max)) {
    case GrpcRelay::Next::kMore:
      return;
    case GrpcRelay::Next::kDecide:
      return session_.on_end(grpc_->first());
    case GrpcRelay::Next::kTooLarge:
      return session_.refuse(413, {code_of(413), "request message too large", {}});
    case GrpcRelay::Next::kNoMemory:
      return session_.refuse(503, {code_of(503), "too many request bytes are buffered", {}});
  }
}

/// Ends a gRPC answer that has begun with a status of our own.
void ProxyHandler::end_grpc(int status, std::string_view message) {
  const auto code = std::to_string(http::grpc_status(status));
  text_ = grpc::percent_encoded(message);
  headers_.assign({{"grpc-status", code}, {"grpc-message", text_}});
  exchange_->finish(headers_);
}

void ProxyHandler::abort_call() {
  call_.abort();
  if (grpc_) grpc_->abort();
}

/// Finds out who asks. False: the request is refused.
bool ProxyHandler::authenticate(HeaderView headers) {
  client_ = nullptr;
  if (!credentials_ || !credentials_->client_keys) return true;
  auto key = bearer_token(headers.get("authorization"));
  if (key.empty()) key = headers.get("x-api-key");
  client_ = credentials_->client_keys->find(key);
  if (client_) return true;
  const auto& options = loop_.options;
  (key.empty() ? options.refused_without_key : options.refused_with_unknown_key).add();
  refuse(401, key.empty() ? "no API key: send it as Authorization: Bearer, or as x-api-key"
                          : "the API key is not known");
  return false;
}

/// The headers that the session hears and the endpoint gets: without a client's key where keys are
/// ours, without what an untrusted client asks for, and with what its key stands for.
HeaderView ProxyHandler::heard(HeaderView headers) {
  const bool untrusted = loop_.options.untrusted_clients;
  if (!untrusted && !credentials_) return headers;
  const std::string_view fairness = client_ ? client_->fairness_id : std::string_view{};
  const std::string_view objective = client_ ? client_->objective : std::string_view{};
  heard_fields_.clear();
  for (const auto& field : headers) {
    if (credentials_ && is_credential(field.name)) continue;
    const Control control = control_of(field.name);
    if (control != Control::kNone && untrusted) continue;
    if (control == Control::kFairness && !fairness.empty()) continue;
    if (control == Control::kObjective && !objective.empty()) continue;
    heard_fields_.push_back(field);
  }
  if (!fairness.empty()) heard_fields_.push_back({kFairnessHeader, fairness});
  if (!objective.empty()) heard_fields_.push_back({kObjectiveHeader, objective});
  return std::span<const HeaderField>(heard_fields_);
}

void ProxyHandler::on_body(http::Exchange&, std::string_view body) {
  if (grpc_) return take_grpc(body, false);
  session_.on_body(body);
}

void ProxyHandler::on_request_end(http::Exchange& exchange, std::string_view body) {
  if (exchange.head().framing == http::Framing::kNone) return;
  if (grpc_) return take_grpc({}, true);
  body_ = body;
  session_.on_end(body);
}

void ProxyHandler::on_writable(http::Exchange&) {
  grpc_ ? grpc_->resume() : call_.resume();
}

void ProxyHandler::on_request_drained() {
  exchange_->resume_body();
}

void ProxyHandler::on_refused(http::Exchange& exchange, int status, std::string_view what) {
  if (session_.active()) return session_.refuse(status, {code_of(status), std::string(what), {}});
  exchange_ = &exchange;
  credentials_ = loop_.credentials;
  client_ = nullptr;
  refuse(status, what);
}

/// Ends a request that the session has not heard of. It gets an id and a line in the log all the
/// same.
void ProxyHandler::refuse(int status, std::string_view what) {
  const auto& head = exchange_->head();
  heard_ = heard(head.headers);
  session_.on_headers(head.target, heard_, false);
  session_.refuse(status, {code_of(status), std::string(what), {}});
}

void ProxyHandler::on_abort(http::Exchange&, http::AbortCause cause) {
  abort_call();
  session_.on_abort(translate(cause));
}

void ProxyHandler::forward(const route::Forward& forward) {
  CHECK(!forward.endpoints.empty());
  const fleet::Endpoint& endpoint = *forward.endpoints[0];
  const auto* known = loop_.destination(endpoint, grpc_ ? Protocol::kHttp2 : Protocol::kHttp1);
  if (!SOFT_CHECK(known != nullptr))
    return session_.on_upstream_failed(route::UpstreamFailure::kConnect);
  http::Destination destination = *known;
  if (forward.port != 0)
    destination.address = *io::SocketAddress::parse(endpoint.spec().address, forward.port);
  served_by_ = endpoint.host_port();
  collect_headers(forward.set_headers);
  const auto& head = exchange_->head();
  auto host = head.headers.get("host");
  if (host.empty()) host = served_by_;
  if (grpc_) {
    headers_.push_back({"te", "trailers"});
    const http::Http2Request request = {
        .method = head.method, .target = head.target, .authority = host, .headers = headers_};
    if (grpc_->start(destination, request)) exchange_->resume_body();
    return;
  }
  collect_body(forward.splices);
  call_.start(destination, {.method = head.method,
                            .target = head.target,
                            .host = host,
                            .headers = headers_,
                            .body = pieces_,
                            .explicit_length = head.framing != http::Framing::kNone,
                            .fresh_connection = forward.fresh_connection});
}

void ProxyHandler::collect_headers(std::span<const HeaderField> set_headers) {
  nominated_.read(heard_);
  headers_.clear();
  for (const auto& field : heard_) {
    if (stays_behind(field.name) || nominated_.holds(field.name)) continue;
    if (!is_among(set_headers, field.name)) headers_.push_back(field);
  }
  for (const auto& field : set_headers) headers_.push_back(field);
  if (credentials_ && !credentials_->upstream_authorization.empty())
    headers_.push_back({"Authorization", credentials_->upstream_authorization});
}

void ProxyHandler::collect_body(std::span<const route::Splice> splices) {
  pieces_.clear();
  size_t at = 0;
  for (const auto& splice : splices) {
    pieces_.push_back(body_.substr(at, splice.range.begin - at));
    pieces_.push_back(splice.replacement);
    at = splice.range.end;
  }
  pieces_.push_back(body_.substr(at));
}

void ProxyHandler::reply(const route::Reply& reply) {
  abort_call();
  if (exchange_->started())
    return grpc_ ? end_grpc(reply.status, reply.message) : exchange_->abort();
  answer_error(reply);
}

void ProxyHandler::answer_error(const route::Reply& reply) {
  headers_.clear();
  const bool grpc = is_grpc(exchange_->head());
  const auto code = grpc ? std::to_string(http::grpc_status(reply.status)) : std::string();
  const auto wait = std::to_string(reply.retry_after);
  if (grpc) {
    text_ = grpc::percent_encoded(reply.message);
    headers_.assign(
        {{"content-type", "application/grpc"}, {"grpc-status", code}, {"grpc-message", text_}});
  } else {
    headers_.push_back({"Content-Type", "application/json"});
    write_error_body(text_, {.path = exchange_->head().target,
                             .status = reply.status,
                             .message = reply.message,
                             .type = code_name(reply.code),
                             .request_id = reply.request_id});
  }
  if (reply.status == 401 && !grpc) headers_.push_back({"WWW-Authenticate", "Bearer"});
  if (!reply.drop_reason.empty()) headers_.push_back({kDropReason, reply.drop_reason});
  if (reply.retry_after > 0) headers_.push_back({"Retry-After", wait});
  if (!reply.request_id.empty()) headers_.push_back({kRequestId, reply.request_id});
  if (grpc)
    exchange_->respond(200, headers_, {});
  else
    exchange_->respond(reply.status, headers_, text_);
}

void ProxyHandler::on_sent(TimePoint offered) {
  // The body of a gRPC request may still be coming.
  if (loop_.options.forward_delay && exchange_->received() != TimePoint{})
    loop_.options.forward_delay->observe(seconds(offered - exchange_->received()));
}

void ProxyHandler::on_inform(const http::ResponseHead& head) {
  // 100 answers an expectation of ours, of which there is none; hints are the client's.
  if (head.status == 100) return;
  headers_.clear();
  for (const auto& field : head.headers)
    if (!stays_behind_in_answer(field.name)) headers_.push_back(field);
  exchange_->inform(head.status, headers_);
}

void ProxyHandler::on_response(const http::ResponseHead& head) {
  session_.on_response_headers(head.status, head.headers, served_by_);
  nominated_.read(head.headers);
  headers_.clear();
  const auto set = session_.response_headers();
  for (const auto& field : head.headers)
    if (!stays_behind_in_answer(field.name) && !nominated_.holds(field.name) &&
        !is_among(set, field.name))
      headers_.push_back(field);
  headers_.insert(headers_.end(), set.begin(), set.end());
  headers_.push_back({kRequestId, session_.request_id()});
  if (!loop_.options.hide_endpoint) headers_.push_back({kServedEndpoint, served_by_});
  // An answer that is only a head, as gRPC gives errors.
  if (grpc_ && head.framing == http::Framing::kNone)
    return exchange_->respond(head.status, headers_, {});
  const bool same_length = head.has_content_length && !session_.renaming();
  exchange_->start(head.status, headers_,
                   same_length ? std::optional(head.content_length) : std::nullopt);
}

void ProxyHandler::on_data(std::string_view data, bool last) {
  // The client comes first; the session reads along.
  auto* const rename = session_.renaming();
  const std::string_view passed = rename ? rename->pass(data, last) : data;
  if ((last || !passed.empty()) && !exchange_->write(passed, last) && !last)
    grpc_ ? grpc_->pause() : call_.pause();
  if (!data.empty()) session_.on_response_body(data);
  if (last) session_.on_response_end();
}

void ProxyHandler::on_trailers(HeaderView trailers) {
  headers_.clear();
  for (const auto& field : trailers)
    if (!stays_behind_in_answer(field.name)) headers_.push_back(field);
  exchange_->finish(headers_);
}

void ProxyHandler::on_failure(http::Failure failure) {
  if (exchange_->started())
    grpc_ ? end_grpc(503, "the model server broke off its answer") : exchange_->abort();
  // What was passed on is not kept, so no other server can have it.
  if (grpc_ && !grpc_->can_start_again()) failure = http::Failure::kBroken;
  session_.on_upstream_failed(translate(failure));
}

}  // namespace llmd::frontend
