#include "call_stream.h"

#include "base/check.h"
#include "codec/grpc_frame.h"
#include "grpc/header_values.h"

#include <algorithm>
#include <array>

namespace llmd::grpc {
namespace {

constexpr size_t kPathBytesMax = 512;
constexpr size_t kTraceparentBytesMax = 64;
constexpr HeaderField kContentType = {"content-type", "application/grpc"};

std::string number(StatusCode code) {
  return std::to_string(static_cast<int>(code));
}

}  // namespace

http2::Limits ServerContext::limits() const {
  return {.streams_max = options.streams_max,
          .header_list_bytes_max = options.header_list_bytes_max,
          .stream_window_bytes = options.stream_window_bytes,
          .connection_window_bytes = options.connection_window_bytes,
          .resets_per_second = options.resets_per_second,
          .control_frames_per_second = options.control_frames_per_second};
}

http2::Counters ServerContext::counters() const {
  return {.streams_refused = metrics.streams_refused,
          .headers_refused = metrics.headers_refused,
          .resets_refused = metrics.resets_refused,
          .control_frames_refused = metrics.control_frames_refused,
          .protocol_errors = metrics.protocol_errors};
}

CallStream::CallStream(ServerContext& context)
    : http2::Stream(context.loop.buffers(), context.budget),
      context_(context),
      reader_(context.loop.buffers(), context.budget, context.options.message_bytes_max) {}

// --- from the peer

bool CallStream::on_field(std::string_view name, std::string_view value) {
  if (!within_header_list(name, value)) return false;
  if (begun_) return true;  // trailers
  if (name == ":path")
    path_ = value.substr(0, kPathBytesMax);
  else if (name == ":method")
    is_post_ = value == "POST";
  else if (name == "content-type")
    is_grpc_ = value.starts_with("application/grpc");
  else if (name == "grpc-timeout")
    timeout_ = value.substr(0, 16);
  else if (name == "grpc-encoding")
    encoding_ = value.substr(0, 16);
  else if (name == "traceparent")
    traceparent_ = value.substr(0, kTraceparentBytesMax);
  return true;
}

void CallStream::on_fields_end(bool) {
  if (std::exchange(begun_, true)) return;
  ++context_.open_calls;
  begin();
}

void CallStream::begin() {
  if (!is_post_ || !is_grpc_)
    return reject(is_post_ ? 415 : 405, StatusCode::kInternal, "not a gRPC request");
  const auto method = std::ranges::find(context_.methods, path_, &Method::path);
  if (method == context_.methods.end())
    return reject(200, StatusCode::kUnimplemented, "unknown method");
  if (encoding_ == "gzip")
    reader_.accept_gzip();
  else if (!encoding_.empty() && encoding_ != "identity")
    return reject(200, StatusCode::kUnimplemented, "grpc-encoding must be gzip or identity");
  if (!timeout_.empty()) {
    const auto timeout = parse_timeout(timeout_);
    if (!timeout) return reject(200, StatusCode::kInternal, "malformed grpc-timeout");
    deadline_ = std::make_unique<io::Timer>(context_.loop);
    deadline_->arm(*timeout,
                   [this] { abort(StatusCode::kDeadlineExceeded, "the deadline has passed"); });
  }
  handler_ = method->open(*this);
  CHECK(handler_ != nullptr);
}

void CallStream::on_data(std::string_view data) {
  uncredited_ += data.size();
  std::string_view message;
  while (!ended_) {
    switch (reader_.read(data, message)) {
      case MessageReader::Result::kMessage:
        handler_->on_message(message);
        continue;
      case MessageReader::Result::kMore:
        break;
      case MessageReader::Result::kTooLarge:
        context_.metrics.messages_refused.add();
        return abort(StatusCode::kResourceExhausted,
                     "grpc: received message larger than the limit");
      case MessageReader::Result::kNoMemory:
        context_.metrics.messages_refused.add();
        return abort(StatusCode::kResourceExhausted, "too much is buffered");
      case MessageReader::Result::kCompressed:
        return abort(StatusCode::kInternal, "a compressed message without grpc-encoding");
      case MessageReader::Result::kMalformed:
        return abort(StatusCode::kInternal, "a compressed message is malformed");
    }
    break;
  }
  if (output_.own_bytes() <= context_.options.stream_output_bytes_max)
    consume(std::exchange(uncredited_, 0));
  else
    context_.metrics.stalls.add();
}

void CallStream::on_end() {
  if (ended_) return;
  if (!reader_.at_boundary()) return abort(StatusCode::kInternal, "the last message is incomplete");
  handler_->on_half_close();
}

void CallStream::on_output_sent() {
  if (output_.own_bytes() <= context_.options.stream_output_bytes_max / 2)
    consume(std::exchange(uncredited_, 0));
}

void CallStream::on_closed(http2::Error) {
  if (!ended_ && handler_) {
    count_end();
    handler_->on_abort(context_.closing);
  }
  deadline_.reset();
}

// --- from us

void CallStream::count_end() {
  ended_ = true;
  deadline_.reset();
  --context_.open_calls;
}

void CallStream::reject(int http_status, StatusCode code, std::string_view message) {
  if (!ended_) count_end();
  const auto status = std::to_string(http_status), grpc_status = number(code),
             text = percent_encoded(message);
  const std::array<HeaderField, 5> fields = {{{":status", status},
                                              kContentType,
                                              {"grpc-accept-encoding", "gzip"},
                                              {"grpc-status", grpc_status},
                                              {"grpc-message", text}}};
  send_head(std::span(fields).first(text.empty() ? 4 : 5), true);
}

void CallStream::send_message(std::span<const Piece> pieces) {
  if (ended_) return;
  if (!head_sent()) {
    const std::array<HeaderField, 2> fields = {{{":status", "200"}, kContentType}};
    send_head(fields, false);
  }
  size_t size = 0;
  for (const auto& piece : pieces) size += piece.bytes.size();
  CHECK(size <= UINT32_MAX);
  const auto prefix = codec::grpc_prefix(size);
  const Piece framing{{prefix.data(), prefix.size()}};
  http2::Stream::send({&framing, 1});
  http2::Stream::send(pieces);
}

void CallStream::end(StatusCode code, std::string_view message) {
  if (ended_) return;
  if (!head_sent()) return reject(200, code, message);
  count_end();
  const auto status = number(code), text = percent_encoded(message);
  const std::array<HeaderField, 2> trailers = {{{"grpc-status", status}, {"grpc-message", text}}};
  http2::Stream::finish(std::span(trailers).first(text.empty() ? 1 : 2));
}

void CallStream::abort(StatusCode why, std::string_view message) {
  const bool announced = !ended_ && handler_;
  end(why, message);
  if (announced) handler_->on_abort(why);
}

void Call::send(std::span<const Piece> pieces) {
  static_cast<CallStream&>(*this).send_message(pieces);
}
void Call::finish(StatusCode code, std::string_view message) {
  static_cast<CallStream&>(*this).end(code, message);
}
bool Call::ended() const {
  return static_cast<const CallStream&>(*this).ended_;
}
std::string_view Call::traceparent() const {
  return static_cast<const CallStream&>(*this).traceparent_;
}
io::Loop& Call::loop() const {
  return static_cast<const CallStream&>(*this).context_.loop;
}

}  // namespace llmd::grpc
