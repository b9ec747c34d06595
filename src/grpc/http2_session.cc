#include "http2_session.h"

#include "base/check.h"
#include "base/log.h"
#include "base/text.h"

#include <algorithm>
#include <array>
#include <nghttp2/nghttp2.h>

namespace llmd::grpc {
namespace {

constexpr size_t kPathBytesMax = 512;
constexpr size_t kTraceparentBytesMax = 64;
/// nghttp2 counts resets and what it has to acknowledge, too; ours are the limits that are
/// configured, counted and documented.
constexpr uint64_t kLibraryResetBurst = 1u << 30;
constexpr size_t kLibraryAcksBeyondOurs = 1000;

nghttp2_nv field(std::string_view name, std::string_view value) {
  return {reinterpret_cast<uint8_t*>(const_cast<char*>(name.data())),
          reinterpret_cast<uint8_t*>(const_cast<char*>(value.data())), name.size(), value.size(),
          NGHTTP2_NV_FLAG_NO_COPY_NAME};
}

std::string_view view(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

}  // namespace

/// nghttp2's callbacks, each a thin cover of a member.
struct Callbacks {
  static Stream* stream_of(nghttp2_session* session, int32_t id) {
    return static_cast<Stream*>(nghttp2_session_get_stream_user_data(session, id));
  }

  static int begin_headers(nghttp2_session*, const nghttp2_frame* frame, void* user) {
    auto& self = *static_cast<Http2Session*>(user);
    self.head_open_ = true;
    if (frame->headers.cat == NGHTTP2_HCAT_REQUEST) self.begin_head(frame->hd.stream_id);
    return 0;
  }

  static int header(nghttp2_session* session, const nghttp2_frame* frame, const uint8_t* name,
                    size_t name_size, const uint8_t* value, size_t value_size, uint8_t,
                    void* user) {
    auto* stream = stream_of(session, frame->hd.stream_id);
    if (!stream) return 0;
    const bool ok = static_cast<Http2Session*>(user)->take_header(*stream, view(name, name_size),
                                                                  view(value, value_size));
    return ok ? 0 : NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
  }

  static int frame_received(nghttp2_session* session, const nghttp2_frame* frame, void* user) {
    auto& self = *static_cast<Http2Session*>(user);
    auto* stream = frame->hd.stream_id ? stream_of(session, frame->hd.stream_id) : nullptr;
    const bool end = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;
    switch (frame->hd.type) {
      case NGHTTP2_HEADERS:
        self.head_open_ = false;
        if (stream && frame->headers.cat == NGHTTP2_HCAT_REQUEST) self.end_head(*stream);
        if (stream && end) self.half_close(*stream);
        return 0;
      case NGHTTP2_DATA:
        if (frame->hd.length == 0 && !end && !self.count_control_frame()) return 0;
        if (stream && end) self.half_close(*stream);
        return 0;
      case NGHTTP2_SETTINGS:
        self.greeted_ = true;
        self.count_control_frame();
        return 0;
      case NGHTTP2_PING:
        if (frame->hd.flags & NGHTTP2_FLAG_ACK) {
          if (self.draining_)
            nghttp2_submit_goaway(session, NGHTTP2_FLAG_NONE,
                                  nghttp2_session_get_last_proc_stream_id(session),
                                  NGHTTP2_NO_ERROR, nullptr, 0);
          return 0;
        }
        self.count_control_frame();
        return 0;
      case NGHTTP2_PRIORITY:
        self.count_control_frame();
        return 0;
      case NGHTTP2_RST_STREAM:
        // What has been answered may be reset: that is how proxies end their streams.
        if (stream && !stream->responded && !self.dead_ &&
            !self.resets_.pass(self.context_.loop.turn_time())) {
          self.context_.metrics.resets_refused.add();
          self.end_session(NGHTTP2_ENHANCE_YOUR_CALM, "too many resets");
        }
        return 0;
      default:
        return 0;
    }
  }

  static int data(nghttp2_session* session, uint8_t, int32_t id, const uint8_t* data, size_t size,
                  void* user) {
    auto& self = *static_cast<Http2Session*>(user);
    nghttp2_session_consume_connection(session, size);
    if (auto* stream = stream_of(session, id)) self.take_data(*stream, view(data, size));
    return 0;
  }

  static int stream_closed(nghttp2_session* session, int32_t id, uint32_t, void* user) {
    if (auto* stream = stream_of(session, id))
      static_cast<Http2Session*>(user)->close_stream(*stream);
    return 0;
  }

  static int frame_sent(nghttp2_session* session, const nghttp2_frame* frame, void*) {
    // A call that we ended first: the client need not send the rest.
    if (frame->hd.type != NGHTTP2_HEADERS || !(frame->hd.flags & NGHTTP2_FLAG_END_STREAM)) return 0;
    auto* stream = stream_of(session, frame->hd.stream_id);
    if (stream && !stream->half_closed)
      nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame->hd.stream_id, NGHTTP2_NO_ERROR);
    return 0;
  }

  static int invalid_frame(nghttp2_session*, const nghttp2_frame*, int error, void* user) {
    const auto& metrics = static_cast<Http2Session*>(user)->context_.metrics;
    (error == NGHTTP2_ERR_REFUSED_STREAM ? metrics.streams_refused : metrics.protocol_errors).add();
    return 0;
  }

  static ssize_t read_output(nghttp2_session*, int32_t, uint8_t*, size_t length, uint32_t* flags,
                             nghttp2_data_source* source, void*) {
    auto& stream = *static_cast<Stream*>(source->ptr);
    const size_t n = std::min(length, stream.output.bytes());
    const bool last = stream.ended && n == stream.output.bytes();
    if (n == 0 && !last) {
      stream.deferred = true;
      return NGHTTP2_ERR_DEFERRED;
    }
    if (n > 0) *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
    if (last) {
      *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
      stream.session.submit_trailers(stream);
    }
    return static_cast<ssize_t>(n);
  }

  static int send_data(nghttp2_session*, nghttp2_frame*, const uint8_t* head, size_t length,
                       nghttp2_data_source* source, void* user) {
    auto& self = *static_cast<Http2Session*>(user);
    auto& stream = *static_cast<Stream*>(source->ptr);
    self.gather_->copy(view(head, 9));
    stream.output.pop(length, *self.gather_);
    if (!std::exchange(stream.touched, true)) self.touched_.push_back(&stream);
    return 0;
  }

  static nghttp2_session_callbacks* make() {
    nghttp2_session_callbacks* c = nullptr;
    CHECK(nghttp2_session_callbacks_new(&c) == 0);
    nghttp2_session_callbacks_set_on_begin_headers_callback(c, begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(c, header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(c, frame_received);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(c, data);
    nghttp2_session_callbacks_set_on_stream_close_callback(c, stream_closed);
    nghttp2_session_callbacks_set_on_frame_send_callback(c, frame_sent);
    nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(c, invalid_frame);
    nghttp2_session_callbacks_set_send_data_callback(c, send_data);
    return c;
  }
};

Stream::Stream(Http2Session& s, int32_t i)
    : session(s),
      id(i),
      reader(s.context_.loop.buffers(), s.context_.budget, s.context_.options.message_bytes_max),
      output(s.context_.loop.buffers(), s.context_.budget) {}

Stream::~Stream() = default;

Http2Session::Http2Session(SessionContext& context, Carrier& carrier)
    : context_(context),
      carrier_(carrier),
      resets_(context.options.resets_per_second, context.loop.turn_time()),
      control_frames_(context.options.control_frames_per_second, context.loop.turn_time()) {
  static nghttp2_session_callbacks* const callbacks = Callbacks::make();
  nghttp2_option* option = nullptr;
  CHECK(nghttp2_option_new(&option) == 0);
  nghttp2_option_set_no_auto_window_update(option, 1);
  nghttp2_option_set_no_closed_streams(option, 1);
  nghttp2_option_set_stream_reset_rate_limit(option, kLibraryResetBurst, kLibraryResetBurst);
  nghttp2_option_set_max_outbound_ack(option, control_frames_.burst() + kLibraryAcksBeyondOurs);
  CHECK(nghttp2_session_server_new2(&session_, callbacks, this, option) == 0);
  nghttp2_option_del(option);
  const ServerOptions& o = context.options;
  const std::array<nghttp2_settings_entry, 3> settings = {{
      {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, o.streams_max},
      {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, o.stream_window_bytes},
      {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, o.header_list_bytes_max},
  }};
  CHECK(nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, settings.data(), settings.size()) ==
        0);
  CHECK(nghttp2_session_set_local_window_size(
            session_, NGHTTP2_FLAG_NONE, 0, static_cast<int32_t>(o.connection_window_bytes)) == 0);
}

Http2Session::~Http2Session() {
  abort_all(StatusCode::kCancelled);
  nghttp2_session_del(session_);
}

// --- bytes

bool Http2Session::receive(std::string_view bytes) {
  if (dead_) return false;
  const ssize_t n = nghttp2_session_mem_recv(
      session_, reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  if (n < 0) {
    context_.metrics.protocol_errors.add();
    if (n != NGHTTP2_ERR_BAD_CLIENT_MAGIC)
      nghttp2_session_terminate_session(
          session_, n == NGHTTP2_ERR_FLOODED ? NGHTTP2_ENHANCE_YOUR_CALM : NGHTTP2_PROTOCOL_ERROR);
    dead_ = true;
  }
  return !dead_;
}

bool Http2Session::collect(Gather& gather, size_t bytes_max) {
  gather_ = &gather;
  while (gather.bytes() < bytes_max) {
    const uint8_t* data = nullptr;
    const size_t before = gather.bytes();
    const ssize_t n = nghttp2_session_mem_send(session_, &data);
    if (n < 0) dead_ = true;
    if (n > 0) gather.copy(view(data, static_cast<size_t>(n)));
    if (n < 0 || (n == 0 && gather.bytes() == before)) break;
  }
  gather_ = nullptr;
  return !dead_;
}

bool Http2Session::collected() {
  for (auto* stream : touched_) {
    stream->touched = false;
    stream->output.release_drained();
    if (stream->uncredited > 0 &&
        stream->output.own_bytes() <= context_.options.stream_output_bytes_max / 2)
      nghttp2_session_consume_stream(session_, stream->id, std::exchange(stream->uncredited, 0));
  }
  touched_.clear();
  closed_.clear();
  return nghttp2_session_want_write(session_) != 0;
}

bool Http2Session::over() const {
  return nghttp2_session_want_read(session_) == 0 && nghttp2_session_want_write(session_) == 0;
}

void Http2Session::end_session(uint32_t error, std::string_view why) {
  if (dead_) return;
  log::warn("closing a gRPC connection", {{"reason", why}});
  nghttp2_session_terminate_session(session_, error);
  dead_ = true;
}

bool Http2Session::count_control_frame() {
  if (dead_) return false;
  if (control_frames_.pass(context_.loop.turn_time())) return true;
  context_.metrics.control_frames_refused.add();
  end_session(NGHTTP2_ENHANCE_YOUR_CALM, "too many control frames");
  return false;
}

void Http2Session::drain() {
  if (std::exchange(draining_, true)) return;
  nghttp2_submit_shutdown_notice(session_);
  nghttp2_submit_ping(session_, NGHTTP2_FLAG_NONE, nullptr);
  carrier_.output_ready();
}

void Http2Session::abort_all(StatusCode why) {
  for (auto& stream : streams_)
    if (!stream.ended) abort(stream, why, "the connection ends");
}

// --- calls, from the peer

void Http2Session::begin_head(int32_t id) {
  auto& stream = streams_.emplace_front(*this, id);
  stream.self = streams_.begin();
  nghttp2_session_set_stream_user_data(session_, id, &stream);
}

bool Http2Session::take_header(Stream& stream, std::string_view name, std::string_view value) {
  stream.header_bytes += name.size() + value.size() + 32;
  if (stream.header_bytes > context_.options.header_list_bytes_max) {
    if (!std::exchange(stream.head_refused, true)) context_.metrics.headers_refused.add();
    return false;
  }
  if (stream.handler || stream.ended) return true;  // trailers
  if (name == ":path")
    stream.path = value.substr(0, kPathBytesMax);
  else if (name == ":method")
    stream.is_post = value == "POST";
  else if (name == "content-type")
    stream.is_grpc = value.starts_with("application/grpc");
  else if (name == "grpc-timeout")
    stream.timeout = value.substr(0, 16);
  else if (name == "grpc-encoding")
    stream.encoding = value.substr(0, 16);
  else if (name == "traceparent")
    stream.traceparent = value.substr(0, kTraceparentBytesMax);
  return true;
}

void Http2Session::end_head(Stream& stream) {
  stream.begun = true;
  ++context_.open_calls;
  if (!stream.is_post || !stream.is_grpc)
    return reject(stream, stream.is_post ? 415 : 405, StatusCode::kInternal, "not a gRPC request");
  const auto method = std::ranges::find(context_.methods, stream.path, &Method::path);
  if (method == context_.methods.end())
    return reject(stream, 200, StatusCode::kUnimplemented, "unknown method");
  if (stream.encoding == "gzip")
    stream.reader.accept_gzip();
  else if (!stream.encoding.empty() && stream.encoding != "identity")
    return reject(stream, 200, StatusCode::kUnimplemented,
                  "grpc-encoding must be gzip or identity");
  if (!stream.timeout.empty()) {
    const auto timeout = parse_timeout(stream.timeout);
    if (!timeout) return reject(stream, 200, StatusCode::kInternal, "malformed grpc-timeout");
    stream.deadline = std::make_unique<io::Timer>(context_.loop);
    stream.deadline->arm(*timeout, [&stream] {
      auto& session = stream.session;
      session.abort(stream, StatusCode::kDeadlineExceeded, "the deadline has passed");
      session.carrier_.output_ready();
    });
  }
  stream.handler = method->open(stream);
  CHECK(stream.handler != nullptr);
}

void Http2Session::take_data(Stream& stream, std::string_view data) {
  stream.uncredited += data.size();
  std::string_view message;
  while (!stream.ended) {
    switch (stream.reader.read(data, message)) {
      case MessageReader::Result::kMessage:
        stream.handler->on_message(message);
        continue;
      case MessageReader::Result::kMore:
        break;
      case MessageReader::Result::kTooLarge:
        context_.metrics.messages_refused.add();
        return abort(stream, StatusCode::kResourceExhausted,
                     "grpc: received message larger than the limit");
      case MessageReader::Result::kNoMemory:
        context_.metrics.messages_refused.add();
        return abort(stream, StatusCode::kResourceExhausted, "too much is buffered");
      case MessageReader::Result::kCompressed:
        return abort(stream, StatusCode::kInternal, "a compressed message without grpc-encoding");
      case MessageReader::Result::kMalformed:
        return abort(stream, StatusCode::kInternal, "a compressed message is malformed");
    }
    break;
  }
  if (stream.output.own_bytes() <= context_.options.stream_output_bytes_max)
    nghttp2_session_consume_stream(session_, stream.id, std::exchange(stream.uncredited, 0));
  else
    context_.metrics.stalls.add();
}

void Http2Session::half_close(Stream& stream) {
  stream.half_closed = true;
  if (stream.ended) return;
  if (!stream.reader.at_boundary())
    return abort(stream, StatusCode::kInternal, "the last message is incomplete");
  stream.handler->on_half_close();
}

void Http2Session::close_stream(Stream& stream) {
  if (!stream.ended && stream.handler) {
    end_call(stream);
    stream.handler->on_abort(StatusCode::kCancelled);
  }
  nghttp2_session_set_stream_user_data(session_, stream.id, nullptr);
  stream.deadline.reset();
  if (stream.touched) std::erase(touched_, &stream);
  closed_.splice(closed_.begin(), streams_, stream.self);
  if (!gather_) carrier_.output_ready();  // so that collected() comes
}

// --- calls, from us

void Http2Session::end_call(Stream& stream) {
  stream.ended = true;
  stream.deadline.reset();
  if (stream.begun) --context_.open_calls;
}

void Http2Session::respond(Stream& stream) {
  if (std::exchange(stream.responded, true)) return;
  const std::array headers = {field(":status", "200"), field("content-type", "application/grpc")};
  nghttp2_data_provider provider;
  provider.source.ptr = &stream;
  provider.read_callback = Callbacks::read_output;
  SOFT_CHECK(
      nghttp2_submit_response(session_, stream.id, headers.data(), headers.size(), &provider) == 0);
}

void Http2Session::submit_trailers(Stream& stream) {
  const auto code = std::to_string(static_cast<int>(stream.status));
  std::array trailers = {field("grpc-status", code), field("grpc-message", stream.status_message)};
  SOFT_CHECK(nghttp2_submit_trailer(session_, stream.id, trailers.data(),
                                    stream.status_message.empty() ? 1 : 2) == 0);
}

/// An answer that is only a head: to what is no call, or to one that failed before it sent.
void Http2Session::reject(Stream& stream, int http_status, StatusCode code,
                          std::string_view message) {
  if (!stream.ended) end_call(stream);
  stream.responded = true;
  const auto status = std::to_string(http_status), number = std::to_string(static_cast<int>(code)),
             text = percent_encoded(message);
  const std::array headers = {field(":status", status), field("content-type", "application/grpc"),
                              field("grpc-accept-encoding", "gzip"), field("grpc-status", number),
                              field("grpc-message", text)};
  SOFT_CHECK(nghttp2_submit_response(session_, stream.id, headers.data(), text.empty() ? 4 : 5,
                                     nullptr) == 0);
}

void Http2Session::send(Stream& stream, std::span<const Piece> pieces) {
  if (stream.ended) return;
  stream.output.push(pieces);
  respond(stream);
  resume(stream);
}

void Http2Session::resume(Stream& stream) {
  if (std::exchange(stream.deferred, false)) nghttp2_session_resume_data(session_, stream.id);
  carrier_.output_ready();
}

void Http2Session::finish(Stream& stream, StatusCode code, std::string_view message) {
  if (stream.ended) return;
  if (!stream.responded) {
    reject(stream, 200, code, message);
    return carrier_.output_ready();
  }
  end_call(stream);
  stream.status = code;
  stream.status_message = percent_encoded(message);
  resume(stream);
}

void Http2Session::abort(Stream& stream, StatusCode why, std::string_view message) {
  const bool announced = !stream.ended && stream.handler;
  finish(stream, why, message);
  if (announced) stream.handler->on_abort(why);
}

void Call::send(std::span<const Piece> pieces) {
  auto& stream = static_cast<Stream&>(*this);
  stream.session.send(stream, pieces);
}
void Call::finish(StatusCode code, std::string_view message) {
  auto& stream = static_cast<Stream&>(*this);
  stream.session.finish(stream, code, message);
}
bool Call::ended() const {
  return static_cast<const Stream&>(*this).ended;
}
std::string_view Call::traceparent() const {
  return static_cast<const Stream&>(*this).traceparent;
}
io::Loop& Call::loop() const {
  return static_cast<const Stream&>(*this).session.context_.loop;
}

}  // namespace llmd::grpc
