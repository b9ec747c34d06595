#include "http2_server.h"

#include "char_class.h"

#include "base/check.h"
#include "base/text.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace llmd::http {
namespace {

/// How far a declared length is believed.
constexpr size_t kBodyBelievedBytes = 1u << 20;
/// Of an answer that a client does not read; beyond it its writer has to wait.
constexpr size_t kUnsentBytesMax = 64 * 1024;
constexpr uint32_t kStreamWindowBytes = 1u << 20;
constexpr uint32_t kConnectionWindowBytes = 16u << 20;

using Number = std::array<char, 24>;
std::string_view digits(Number& space, uint64_t value) {
  const auto end = std::to_chars(space.data(), space.data() + space.size(), value).ptr;
  return {space.data(), static_cast<size_t>(end - space.data())};
}

http2::Limits limits_of(const ServerOptions& options) {
  return {.streams_max = options.streams_max,
          .header_list_bytes_max = static_cast<uint32_t>(options.head_bytes_max),
          .stream_window_bytes = kStreamWindowBytes,
          .connection_window_bytes = kConnectionWindowBytes,
          .resets_per_second = options.resets_per_second,
          .control_frames_per_second = options.control_frames_per_second};
}

http2::Counters counters_of(const ServerOptions& options) {
  if (!options.probe) return {};
  const auto& probe = *options.probe;
  return {.streams_refused = probe.counter(ClientLimit::kStreams),
          .headers_refused = probe.counter(ClientLimit::kHeaderList),
          .resets_refused = probe.counter(ClientLimit::kResets),
          .control_frames_refused = probe.counter(ClientLimit::kControlFrames),
          .protocol_errors = {}};
}

}  // namespace

Http2Connection::Http2Connection(Server::State& server, tls::Stream stream,
                                 io::PeerLimit::Place place)
    : http2::Connection(server.loop, std::move(stream), http2::Session::Role::kServer,
                        limits_of(server.options), counters_of(server.options),
                        {.handshake = server.options.head_timeout,
                         .write = server.options.write_timeout,
                         .idle = server.options.idle_timeout}),
      server_(server),
      place_(std::move(place)) {}

void Http2Connection::on_timeout() {
  stalled_ = true;
  server_.count(session_.head_pending() ? ClientLimit::kHeadTimeout : ClientLimit::kWriteTimeout);
}

Http2Exchange::Http2Exchange(Server::State& server, Http2Connection& connection)
    : http2::Stream(server.loop.buffers(), server.output_budget),
      server_(server),
      connection_(connection),
      began_(server.loop.turn_time()),
      counts_from_(began_),
      deadline_(server.loop, [this] { on_deadline(); }),
      handler_(server.factory()) {
  if (server.options.body_budget) body_share_.emplace(*server.options.body_budget);
}

io::SocketAddress Http2Exchange::peer() const {
  return connection_.peer();
}

// --- the request

bool Http2Exchange::on_field(std::string_view name, std::string_view value) {
  if (head_done_) return within_header_list(name, value);  // trailers, which are dropped
  if (too_large_) return true;
  if (!within_header_list(name, value) || lines_.size() == server_.options.headers_max) {
    if (lines_.size() == server_.options.headers_max) server_.count(ClientLimit::kHeaderList);
    too_large_ = true;
    return true;
  }
  if (!is_field_value(value)) return false;
  if (name == "cookie") {
    // May be split over several lines here, not so in HTTP/1.1 (RFC 9113 §8.2.3).
    if (!cookies_.empty()) cookies_ += "; ";
    cookies_ += value;
    return true;
  }
  const size_t begin = text_.size();
  text_.append(name).append(value);
  lines_.push_back({begin, begin + name.size(), text_.size()});
  return true;
}

void Http2Exchange::on_fields_end(bool last) {
  if (std::exchange(head_done_, true)) return;
  read_head(last);
  if (too_large_) return refuse(431, "request head too large");
  if (!check_head()) return;
  if (head_.content_length > server_.options.body_bytes_max)
    return refuse(413, body_too_large(server_.options.body_bytes_max));
  announced_ = true;
  ++server_.open_exchanges;
  if (!last) await_body();
  handler_->on_request(*this);
  if (!announced_ || last) return;
  if (head_.expects_continue && !head_sent()) inform(100, {});
}

/// Makes the head that a handler sees: the pseudo headers become its method, target and Host. A
/// head that is too large has the lines up to there.
void Http2Exchange::read_head(bool last) {
  std::string_view authority, host, length;
  fields_.clear();
  fields_.push_back({"host", {}});
  for (const auto& [begin, name_end, end] : lines_) {
    const HeaderField field{text(begin, name_end), text(name_end, end)};
    if (field.name == ":method") {
      head_.method = field.value;
    } else if (field.name == ":path") {
      head_.target = field.value;
    } else if (field.name == ":authority") {
      authority = field.value;
    } else if (field.name == "host") {
      host = field.value;
    } else if (!field.name.starts_with(':')) {
      if (field.name == "content-length") length = field.value;
      fields_.push_back(field);
    }
  }
  two_hosts_ = !authority.empty() && !host.empty() && !equals_ignore_case(authority, host);
  fields_[0].value = authority.empty() ? host : authority;
  if (!cookies_.empty()) fields_.push_back({"cookie", cookies_});
  head_.headers = std::span<const HeaderField>(fields_);
  head_.http2 = true;
  std::from_chars(length.data(), length.data() + length.size(), head_.content_length);
  if (!last) head_.framing = head_.content_length > 0 ? Framing::kLength : Framing::kChunked;
}

/// False: the request is refused.
bool Http2Exchange::check_head() {
  if (two_hosts_) {
    reset(http2::Error::kProtocol);
    return false;
  }
  if (const auto fault = check_request(head_.method, head_.target, fields_[0].value)) {
    refuse(fault->status, fault->what);
    return false;
  }
  if (const auto expect = head_.headers.find("expect")) {
    head_.expects_continue = equals_ignore_case(*expect, "100-continue");
    if (!head_.expects_continue) {
      refuse(417, "unknown expectation");
      return false;
    }
  }
  return true;
}

void Http2Exchange::on_data(std::string_view data) {
  if (!announced_) return consume(data.size());
  body_bytes_ += data.size();
  if (stream_body_) {
    if (!body_paused_) await_body();
    uncredited_ += data.size();
    if (!data.empty()) handler_->on_body(*this, data);
    if (!body_paused_) consume(std::exchange(uncredited_, 0));
    return;
  }
  if (body_bytes_ > server_.options.body_bytes_max)
    return refuse(413, body_too_large(server_.options.body_bytes_max));
  await_body();
  if (!body_) body_ = server_.loop.buffers().take(data.size());
  body_.reserve_declared(data.size(), std::min<uint64_t>(head_.content_length, kBodyBelievedBytes));
  body_.append(data);
  consume(data.size());
  if (charge_body()) handler_->on_body(*this, body_.view());
}

void Http2Exchange::on_end() {
  if (!announced_) return;
  received_all_ = true;
  received_ = server_.loop.turn_time();
  deadline_.clear();
  handler_->on_request_end(*this, stream_body_ ? std::string_view{} : body_.view());
}

/// As of HTTP/1.1: false when the process holds as much as it may, and the request is refused.
bool Http2Exchange::charge_body() {
  if (!body_share_ || body_share_->resize(body_.capacity())) return true;
  server_.count(ClientLimit::kBufferedBytes);
  refuse(503, "too many request bytes are buffered");
  return false;
}

void Http2Exchange::pause_body() {
  body_paused_ = true;
  if (!head_sent()) deadline_.clear();  // whoever pauses it is the one that is waited for
}

void Http2Exchange::resume_body() {
  if (!std::exchange(body_paused_, false)) return;
  resumed_ = true;
  counts_from_ = server_.loop.turn_time();
  consume(std::exchange(uncredited_, 0));
  if (announced_) await_body();
}

/// Limits the wait for more of the body: each arrival, and the request as a whole.
void Http2Exchange::await_body() {
  if (head_sent() || received_all_) return;
  const auto& options = server_.options;
  const Nanos between = resumed_ ? Nanos(0) : options.body_timeout;
  deadline_.set(body_wait(options, between, counts_from_, server_.loop.turn_time()));
}

/// Answers a request that cannot be served, by its handler if it will.
void Http2Exchange::refuse(int status, std::string_view what) {
  if (status == 413) server_.count(ClientLimit::kBody);
  if (head_sent()) {
    abort();
    return handler_->on_abort(*this, AbortCause::kBadRequest);
  }
  if (!std::exchange(announced_, true)) ++server_.open_exchanges;
  handler_->on_refused(*this, status, what);
  if (!announced_) return;
  const HeaderField type{"content-type", "application/json"};
  respond(status, {&type, 1}, refusal_body(status, what));
}

void Http2Exchange::on_closed(http2::Error) {
  deadline_.clear();
  if (!std::exchange(announced_, false)) return;
  --server_.open_exchanges;
  handler_->on_abort(*this, server_.cutting_off                 ? AbortCause::kShutdown
                            : stalled_ || connection_.stalled() ? AbortCause::kClientStalled
                                                                : AbortCause::kClientGone);
}

void Http2Exchange::on_deadline() {
  if (head_sent()) {
    server_.count(ClientLimit::kWriteTimeout);
    stalled_ = true;
    return reset(http2::Error::kCancel);
  }
  const Nanos limit = server_.options.request_timeout;
  const bool whole = limit > Nanos(0) && server_.loop.clock().now() >= counts_from_ + limit;
  server_.count(whole ? ClientLimit::kRequestTimeout : ClientLimit::kBodyTimeout);
  refuse(408, "the request body did not arrive in time");
}

// --- the answer

void Http2Exchange::send_start(int status, std::span<const HeaderField> headers,
                               std::optional<uint64_t> length, bool last) {
  Number number, size;
  std::vector<HeaderField>& fields = server_.fields;
  fields.assign(1, {":status", digits(number, static_cast<uint64_t>(status))});
  fields.insert(fields.end(), headers.begin(), headers.end());
  if (length) fields.push_back({"content-length", digits(size, *length)});
  send_head(fields, last);
}

void Http2Exchange::respond(int status, std::span<const HeaderField> headers,
                            std::string_view body) {
  if (!announced_ || !SOFT_CHECK(!head_sent())) return;
  const bool bodiless = status == 204 || status == 304;
  const bool head_only = head_.method == "HEAD";
  const bool last = bodiless || head_only || body.empty();
  // An answer that ends with its head has no length to tell.
  send_start(status, headers,
             bodiless || (body.empty() && !head_only) ? std::nullopt : std::optional(body.size()),
             last);
  if (!last) {
    const http2::Piece piece{body};
    send({&piece, 1});
  }
  end_answer();
}

void Http2Exchange::start(int status, std::span<const HeaderField> headers,
                          std::optional<uint64_t> length) {
  if (!announced_ || !SOFT_CHECK(!head_sent())) return;
  suppress_body_ = status == 204 || status == 304 || head_.method == "HEAD";
  if (!suppress_body_) answer_left_ = length;
  if (status == 204) length.reset();
  deadline_.clear();
  send_start(status, headers, length, false);
}

bool Http2Exchange::write(std::string_view data, bool last) {
  if (!announced_ || !SOFT_CHECK(head_sent())) return true;
  if (suppress_body_) data = {};
  if (answer_left_) {
    if (!SOFT_CHECK(data.size() <= *answer_left_)) data = data.substr(0, *answer_left_);
    *answer_left_ -= data.size();
    if (last && *answer_left_ > 0) {
      abort();
      return true;
    }
  }
  if (!data.empty()) {
    const http2::Piece piece{data};
    send({&piece, 1});
  }
  if (last) {
    end_answer();
    return true;
  }
  await_client();
  // Whoever was told to wait waits for on_writable(), even if this is little.
  owes_writable_ |= output_.bytes() > kUnsentBytesMax;
  return !owes_writable_;
}

void Http2Exchange::finish(std::span<const HeaderField> trailers) {
  if (!announced_ || !SOFT_CHECK(head_sent())) return;
  http2::Stream::finish(trailers);
  end_answer();
}

/// Limits the time in which a client takes nothing of what waits for it.
void Http2Exchange::await_client() {
  if (output_.bytes() > 0) deadline_.set(server_.options.write_timeout);
}

/// The answer's last byte is queued.
void Http2Exchange::end_answer() {
  http2::Stream::finish();
  deadline_.clear();
  await_client();
  if (std::exchange(announced_, false)) --server_.open_exchanges;
}

void Http2Exchange::inform(int status, std::span<const HeaderField> headers) {
  if (!announced_) return;
  Number number;
  std::vector<HeaderField>& fields = server_.fields;
  fields.assign(1, {":status", digits(number, static_cast<uint64_t>(status))});
  fields.insert(fields.end(), headers.begin(), headers.end());
  send_interim(fields);
}

void Http2Exchange::abort() {
  if (!std::exchange(announced_, false)) return;
  --server_.open_exchanges;
  deadline_.clear();
  reset(http2::Error::kInternal);
}

void Http2Exchange::on_output_sent() {
  if (output_.bytes() > 0) return await_client();
  if (head_sent()) deadline_.clear();
  if (announced_ && std::exchange(owes_writable_, false)) handler_->on_writable(*this);
}

}  // namespace llmd::http
