#include "ext_proc_call.h"

#include "client_headers.h"
#include "header_rules.h"

#include "base/log.h"
#include "base/text.h"
#include "http/server.h"
#include "schedule/request_context.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace llmd::frontend::ext_proc {
namespace {

using grpc::Piece;
using grpc::StatusCode;

/// Of one body message; proxies advise against more than 64 KiB.
constexpr size_t kBodyChunkBytes = 62'000;
/// How far a declared length is believed.
constexpr uint64_t kBodyBelievedBytes = 1u << 20;
constexpr std::string_view kDefaultPath = "/v1/completions";
constexpr std::string_view kDropReason = "x-llm-d-request-dropped-reason";
constexpr HeaderField kResponseMarker = {"x-went-into-resp-headers", "true"};

std::string_view target_of(HeaderView headers) {
  for (const auto* name : {":path", "x-original-path", "x-forwarded-path"})
    if (const auto path = headers.get(name); !path.empty()) return path;
  return kDefaultPath;
}

bool is_among(std::span<const HeaderField> fields, std::string_view name) {
  return std::ranges::any_of(
      fields, [&](const auto& field) { return equals_ignore_case(field.name, name); });
}

template <class T>
T number_of(std::string_view text) {
  T value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

/// Walks over the bytes of several pieces in steps of a chunk.
class Chunks {
 public:
  explicit Chunks(std::span<const Piece> pieces) : rest_(pieces) {
    for (const auto& piece : pieces) left_ += piece.bytes.size();
  }
  size_t left() const { return left_; }
  std::span<const Piece> next() {
    chunk_.clear();
    size_t room = std::min(left_, kBodyChunkBytes);
    left_ -= room;
    while (room > 0) {
      const Piece& piece = rest_.front();
      const auto part = piece.bytes.substr(used_, room);
      if (!part.empty()) chunk_.push_back({part, piece.stays});
      room -= part.size();
      used_ += part.size();
      if (used_ < piece.bytes.size()) continue;
      used_ = 0;
      rest_ = rest_.subspan(1);
    }
    return chunk_;
  }

 private:
  std::span<const Piece> rest_;
  size_t used_ = 0;
  size_t left_ = 0;
  std::vector<Piece> chunk_;
};

}  // namespace

ExtProcCall::ExtProcCall(ExtProcLoop& shared, grpc::Call& call)
    : shared_(shared), call_(call), session_(shared.director, *this), body_share_(shared.budget) {
  shared_.metrics.opened();
}

ExtProcCall::~ExtProcCall() = default;

void ExtProcCall::on_message(std::string_view bytes) {
  const auto message = read_request(bytes);
  if (!message) return fail_stream(StatusCode::kInternal, "malformed ProcessingRequest");
  switch (message->part) {
    case Part::kRequestHeaders:
      return request_headers(*message);
    case Part::kRequestBody:
      return request_body(*message);
    case Part::kRequestTrailers:
      return request_trailers();
    case Part::kResponseHeaders:
      return response_headers(*message);
    case Part::kResponseBody:
      return response_body(*message);
    case Part::kResponseTrailers:
      return response_trailers();
    case Part::kNone:
      break;
  }
  fail_stream(StatusCode::kInvalidArgument, "a message about nothing known");
}

void ExtProcCall::on_half_close() {
  if (!answered_)
    return fail_stream(StatusCode::kCancelled, "ended before its request was answered");
  end_session(schedule::EndCause::kError);
  finish(StatusCode::kOk);
}

/// Proxies end a stream by resetting it, also when all is well.
void ExtProcCall::on_abort(StatusCode why) {
  if (why == StatusCode::kCancelled && answered_ && !session_.active()) why = StatusCode::kOk;
  end_session(why == StatusCode::kUnavailable ? schedule::EndCause::kShutdown
                                              : schedule::EndCause::kClientDisconnect);
  state_ = State::kDone;
  shared_.metrics.ended(why, shared_.loop.turn_time() - opened_);
}

/// The stream ends; an answer whose body the proxy keeps to itself ends well then.
void ExtProcCall::end_session(schedule::EndCause cause) {
  if (!session_.active()) return;
  if (shared_.options.skip_response_body && state_ == State::kResponding)
    session_.on_response_end();
  else
    session_.on_abort(cause);
}

// --- the request

void ExtProcCall::request_headers(const ProcessingRequest& message) {
  if (state_ != State::kNew) return out_of_order();
  head_ = message.header_map;
  if (!read_headers(head_, headers_))
    return fail_stream(StatusCode::kInternal, "malformed HeaderMap");
  if (shared_.options.untrusted_clients) withhold_controls();
  has_head_ = true;
  has_body_ = !message.end_of_stream;
  if (message.end_of_stream) read_subset_hint(message.metadata);
  start_session();
}

/// Untrusted clients choose neither priority nor fairness nor another model: neither here nor at
/// the server.
void ExtProcCall::withhold_controls() {
  std::erase_if(headers_, [&](const HeaderField& field) {
    if (control_of(field.name) == Control::kNone) return false;
    withheld_.push_back(field.name);
    return true;
  });
}

void ExtProcCall::start_session() {
  state_ = has_body_ ? State::kReceiving : State::kDeciding;
  const HeaderView headers(headers_);
  session_.carried_by(call_.traceparent());
  session_.on_headers(target_of(headers), headers, !has_body_);
}

void ExtProcCall::read_subset_hint(std::string_view metadata) {
  if (!shared_.options.subset_filter || metadata.empty()) return;
  metadata_ = metadata;
  auto subset = read_subset(metadata_);
  if (!subset) return;
  subset_ = std::move(*subset);
  session_.restrict_to(subset_);
}

void ExtProcCall::request_body(const ProcessingRequest& message) {
  if (answered_ || state_ >= State::kAnswered) return;
  if (state_ == State::kNew) {
    has_body_ = true;
    start_session();
  }
  if (state_ != State::kReceiving) return out_of_order();
  if (!append_body(message.body)) return;
  if (!message.end_of_stream) return session_.on_body(body_.view());
  read_subset_hint(message.metadata);
  end_request();
}

void ExtProcCall::request_trailers() {
  if (state_ == State::kReceiving) {
    ends_by_trailers_ = true;
    return end_request();
  }
  if (state_ < State::kAnswered) return out_of_order();
  write_trailers(shared_.message, Direction::kRequest);
  call_.send({{shared_.message}});
}

/// False when the request has been refused.
bool ExtProcCall::append_body(std::string_view bytes) {
  const size_t size = body_.size() + bytes.size();
  if (size > shared_.options.body_bytes_max) {
    refuse(413, Code::kBadRequest, http::body_too_large(shared_.options.body_bytes_max));
    return false;
  }
  if (bytes.empty()) return true;
  if (!body_) body_ = shared_.loop.buffers().take(bytes.size());
  if (body_.room_size() < bytes.size()) {
    const auto declared = number_of<uint64_t>(HeaderView(headers_).get("content-length"));
    body_.reserve_declared(bytes.size(), std::min(declared, kBodyBelievedBytes));
  }
  body_.append(bytes);
  if (body_share_.resize(body_.capacity())) return true;
  shared_.metrics.buffers_refused.add();
  refuse(503, Code::kServiceUnavailable, "too many request bytes are buffered");
  return false;
}

void ExtProcCall::end_request() {
  state_ = State::kDeciding;
  session_.on_end(body_.view());
}

// --- its answer

void ExtProcCall::forward(const route::Forward& forward) {
  size_t body_bytes = body_.size();
  for (const auto& splice : forward.splices)
    body_bytes += splice.replacement.size() - (splice.range.end - splice.range.begin);
  send_request_head(forward, body_bytes);
  answered_ = true;
  state_ = State::kAnswered;
  if (has_body_) send_request_body(forward.splices);
  if (!ends_by_trailers_) return;
  write_trailers(shared_.message, Direction::kRequest);
  call_.send({{shared_.message}});
}

void ExtProcCall::send_request_head(const route::Forward& forward, size_t body_bytes) {
  auto& [destination, set, remove, scores] = shared_.head;
  destination.clear();
  for (const auto* endpoint : forward.endpoints) {
    if (!destination.empty()) destination += ',';
    if (forward.port != 0)
      destination += fleet::host_port(endpoint->spec().address, forward.port);
    else
      destination += endpoint->host_port();
  }
  set.assign(1, {kDestinationHeader, destination});
  std::array<char, 24> digits;
  if (body_bytes > 0) {
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), body_bytes).ptr;
    set.push_back({"Content-Length", {digits.data(), static_cast<size_t>(end - digits.data())}});
  }
  if (has_head_) set.insert(set.end(), forward.set_headers.begin(), forward.set_headers.end());
  if (has_body_ && !shared_.options.lean_headers) echo(HeaderView(headers_), set);
  remove.assign(withheld_.begin(), withheld_.end());
  for (const auto& field : headers_)
    if (is_removed(field.name) && !is_among(set, field.name)) remove.push_back(field.name);
  scores.clear();
  if (shared_.options.emit_scores && forward.decision) {
    const auto& decision = *forward.decision;
    const auto& result = decision.results[decision.primary];
    for (size_t i = 0; i < result.scored.size() && i < result.totals.size(); ++i)
      scores.emplace_back(decision.candidates[result.scored[i]].endpoint->host_port(),
                          result.totals[i]);
  }
  write_request_head(shared_.message, {set, remove}, {destination, scores});
  call_.send({{shared_.message}});
}

void ExtProcCall::send_request_body(std::span<const route::Splice> splices) {
  std::vector<Piece> pieces;
  const auto body = body_.view();
  size_t at = 0;
  for (const auto& splice : splices) {
    pieces.push_back({body.substr(at, splice.range.begin - at), true});
    pieces.push_back({splice.replacement, false});
    at = splice.range.end;
  }
  if (at < body.size()) pieces.push_back({body.substr(at), true});
  send_body(Direction::kRequest, pieces, !ends_by_trailers_);
}

/// `metadata` goes with the last message.
void ExtProcCall::send_body(Direction direction, std::span<const Piece> pieces, bool end_of_stream,
                            std::string_view metadata) {
  Chunks chunks(pieces);
  if (chunks.left() == 0 && !end_of_stream) return;
  std::array<char, kBodyPrefixBytesMax> prefix;
  auto& message = shared_.pieces;
  do {
    const auto chunk = chunks.next();
    size_t bytes = 0;
    for (const auto& piece : chunk) bytes += piece.bytes.size();
    const size_t prefix_bytes =
        write_body_prefix(prefix, direction, bytes, end_of_stream && chunks.left() == 0);
    message.clear();
    if (chunks.left() == 0 && !metadata.empty()) message.push_back({metadata, false});
    message.push_back({{prefix.data(), prefix_bytes}, false});
    message.insert(message.end(), chunk.begin(), chunk.end());
    call_.send(message);
  } while (chunks.left() > 0);
}

void ExtProcCall::reply(const route::Reply& reply) {
  send_immediate(reply.status, reply.message, reply.drop_reason, reply.retry_after);
}

/// An answer of our own instead of the server's. It ends the stream.
void ExtProcCall::send_immediate(int status, std::string_view message, std::string_view drop_reason,
                                 int retry_after) {
  const auto seconds = std::to_string(retry_after);
  std::array<HeaderField, 2> headers;
  size_t n = 0;
  if (!drop_reason.empty()) headers[n++] = {kDropReason, drop_reason};
  if (retry_after > 0) headers[n++] = {"retry-after", seconds};
  write_immediate(shared_.message, status, {headers.data(), n}, message);
  call_.send({{shared_.message}});
  answered_ = true;
  finish(StatusCode::kOk);
}

/// Refuses a request that the session need not see to its end.
void ExtProcCall::refuse(int status, Code code, std::string_view message) {
  session_.on_abort(schedule::EndCause::kError);
  std::string text = "inference error: ";
  text.append(code_name(code)).append(" - ").append(message);
  send_immediate(status, text, {}, 0);
}

// --- the server's answer

void ExtProcCall::response_headers(const ProcessingRequest& message) {
  if (state_ >= State::kResponding) return out_of_order();
  // The proxy's own answer to a request that it has not seen forwarded.
  if (state_ < State::kAnswered) session_.on_abort(schedule::EndCause::kError);
  state_ = State::kResponding;
  auto& fields = shared_.fields;
  fields.clear();
  if (!read_headers(message.header_map, fields))
    return fail_stream(StatusCode::kInternal, "malformed HeaderMap");
  auto& set = shared_.head.set;
  set.assign(1, kResponseMarker);
  const HeaderView headers(fields);
  if (session_.active()) {
    const auto status = headers.find(":status");
    session_.on_response_headers(number_of<int>(status ? *status : headers.get("status")), headers,
                                 read_served(message.metadata));
    const auto by_plugins = session_.response_headers();
    set.insert(set.end(), by_plugins.begin(), by_plugins.end());
  }
  if (!shared_.options.lean_headers) echo(headers, set);
  const bool skip = shared_.options.skip_response_body && !message.end_of_stream;
  write_response_head(shared_.message, {set, {}}, skip);
  call_.send({{shared_.message}});
  if (session_.active() && message.end_of_stream) session_.on_response_end();
}

void ExtProcCall::response_body(const ProcessingRequest& message) {
  if (state_ != State::kResponding) return out_of_order();
  const bool last = message.end_of_stream;
  const auto read_along = [&] {
    if (session_.active() && !message.body.empty()) session_.on_response_body(message.body);
  };
  // The proxy comes first and the session reads along, unless the last bytes go with its reports.
  const bool read_first = last && session_.reports_answers();
  if (read_first) read_along();
  pass_response(message.body, last, last);
  if (!read_first) read_along();
  if (last && session_.active()) session_.on_response_end();
}

/// Metadata about the answer, whose last byte the session has read.
std::string_view ExtProcCall::reports() {
  write_reports(shared_.metadata, session_.reports());
  return shared_.metadata;
}

/// Sends more of the answer; `last`: its final bytes, though trailers may follow.
void ExtProcCall::pass_response(std::string_view body, bool last, bool end_of_stream) {
  auto* const rename = session_.active() ? session_.renaming() : nullptr;
  const Piece piece{rename ? rename->pass(body, last) : body, false};
  send_body(Direction::kResponse, {&piece, piece.bytes.empty() ? 0u : 1u}, end_of_stream,
            end_of_stream ? reports() : std::string_view{});
}

void ExtProcCall::response_trailers() {
  if (state_ != State::kResponding) return out_of_order();
  pass_response({}, true, false);
  write_trailers(shared_.message, Direction::kResponse);
  shared_.message += reports();
  call_.send({{shared_.message}});
  if (session_.active()) session_.on_response_end();
}

// --- ends

void ExtProcCall::out_of_order() {
  fail_stream(StatusCode::kInvalidArgument, "messages out of order");
}

void ExtProcCall::fail_stream(StatusCode code, std::string_view message) {
  log::debug("ext-proc stream failed", {{"reason", message}});
  session_.on_abort(code == StatusCode::kCancelled ? schedule::EndCause::kClientDisconnect
                                                   : schedule::EndCause::kError);
  finish(code, message);
}

void ExtProcCall::finish(StatusCode code, std::string_view message) {
  state_ = State::kDone;
  call_.finish(code, message);
  shared_.metrics.ended(code, shared_.loop.turn_time() - opened_);
}

}  // namespace llmd::frontend::ext_proc
