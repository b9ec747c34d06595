#include "http2/session.h"

#include "rate_limit.h"

#include "base/check.h"
#include "base/log.h"

#include <algorithm>
#include <array>
#include <nghttp2/nghttp2.h>

namespace llmd::http2 {
namespace {

/// nghttp2 counts resets and what it has to acknowledge, too; ours are the limits that are
/// configured, counted and documented.
constexpr uint64_t kLibraryResetBurst = 1u << 30;
constexpr size_t kLibraryAcksBeyondOurs = 1000;

std::string_view view(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

uint8_t* bytes(std::string_view text) {
  return reinterpret_cast<uint8_t*>(const_cast<char*>(text.data()));
}

}  // namespace

/// Fields as nghttp2 takes them; room that is reused.
struct Session::NameValues : std::vector<nghttp2_nv> {};

/// nghttp2's callbacks, each a thin cover of a member.
struct Callbacks {
  static Stream* stream_of(nghttp2_session* session, int32_t id) {
    return id ? static_cast<Stream*>(nghttp2_session_get_stream_user_data(session, id)) : nullptr;
  }

  static int begin_headers(nghttp2_session*, const nghttp2_frame* frame, void* user) {
    auto& self = *static_cast<Session*>(user);
    self.head_open_ = true;
    if (frame->headers.cat == NGHTTP2_HCAT_REQUEST) self.begin_stream(frame->hd.stream_id);
    return 0;
  }

  static int header(nghttp2_session* session, const nghttp2_frame* frame, const uint8_t* name,
                    size_t name_size, const uint8_t* value, size_t value_size, uint8_t, void*) {
    auto* stream = stream_of(session, frame->hd.stream_id);
    if (!stream) return 0;
    const bool ok = stream->on_field(view(name, name_size), view(value, value_size));
    return ok ? 0 : NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
  }

  static int frame_received(nghttp2_session* session, const nghttp2_frame* frame, void* user) {
    auto& self = *static_cast<Session*>(user);
    auto* stream = stream_of(session, frame->hd.stream_id);
    const bool end = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;
    switch (frame->hd.type) {
      case NGHTTP2_HEADERS:
        self.head_open_ = false;
        if (!stream) return 0;
        stream->peer_ended_ |= end;
        stream->on_fields_end(end);
        stream->restart_header_list();
        if (end) stream->on_end();
        return 0;
      case NGHTTP2_DATA:
        if (frame->hd.length == 0 && !end && !self.count_control_frame()) return 0;
        if (!stream || !end) return 0;
        stream->peer_ended_ = true;
        stream->on_end();
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
        if (stream && self.role_ == Session::Role::kServer && !stream->head_sent_ && !self.dead_ &&
            !self.resets_->pass(self.loop_.turn_time())) {
          self.counters_.resets_refused.add();
          self.end_session(Error::kCalm, "too many resets");
        }
        return 0;
      default:
        return 0;
    }
  }

  static int data(nghttp2_session* session, uint8_t, int32_t id, const uint8_t* data, size_t size,
                  void*) {
    nghttp2_session_consume_connection(session, size);
    if (auto* stream = stream_of(session, id)) stream->on_data(view(data, size));
    return 0;
  }

  static int stream_closed(nghttp2_session* session, int32_t id, uint32_t error, void* user) {
    if (auto* stream = stream_of(session, id))
      static_cast<Session*>(user)->close_stream(*stream, static_cast<Error>(error));
    return 0;
  }

  static int frame_sent(nghttp2_session* session, const nghttp2_frame* frame, void* user) {
    // A request that we answered before it had come whole: the client need not send the rest.
    const bool ends = (frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA) &&
                      (frame->hd.flags & NGHTTP2_FLAG_END_STREAM);
    if (!ends || static_cast<Session*>(user)->role_ == Session::Role::kClient) return 0;
    auto* stream = stream_of(session, frame->hd.stream_id);
    if (stream && !stream->peer_ended_)
      nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame->hd.stream_id, NGHTTP2_NO_ERROR);
    return 0;
  }

  static int invalid_frame(nghttp2_session*, const nghttp2_frame*, int error, void* user) {
    const auto& counters = static_cast<Session*>(user)->counters_;
    (error == NGHTTP2_ERR_REFUSED_STREAM ? counters.streams_refused : counters.protocol_errors)
        .add();
    return 0;
  }

  static ssize_t read_output(nghttp2_session* session, int32_t id, uint8_t*, size_t length,
                             uint32_t* flags, nghttp2_data_source* source, void* user) {
    auto& stream = *static_cast<Stream*>(source->ptr);
    const size_t n = std::min(length, stream.output_.bytes());
    const bool last = stream.finished_ && n == stream.output_.bytes();
    if (n == 0 && !last) {
      stream.deferred_ = true;
      return NGHTTP2_ERR_DEFERRED;
    }
    if (n > 0) *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
    if (!last) return static_cast<ssize_t>(n);
    *flags |= NGHTTP2_DATA_FLAG_EOF;
    if (stream.trailers_.empty()) return static_cast<ssize_t>(n);
    *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
    std::vector<HeaderField> trailers;
    trailers.reserve(stream.trailers_.size());
    for (const auto& [name, value] : stream.trailers_) trailers.push_back({name, value});
    const auto& nv = static_cast<Session*>(user)->fields(trailers);
    SOFT_CHECK(nghttp2_submit_trailer(session, id, nv.data(), nv.size()) == 0);
    return static_cast<ssize_t>(n);
  }

  static int send_data(nghttp2_session*, nghttp2_frame*, const uint8_t* head, size_t length,
                       nghttp2_data_source* source, void* user) {
    auto& self = *static_cast<Session*>(user);
    auto& stream = *static_cast<Stream*>(source->ptr);
    self.gather_->copy(view(head, 9));
    stream.output_.pop(length, *self.gather_);
    if (!std::exchange(stream.touched_, true)) self.touched_.push_back(&stream);
    return 0;
  }

  static nghttp2_data_provider output_of(Stream& stream) {
    nghttp2_data_provider provider;
    provider.source.ptr = &stream;
    provider.read_callback = read_output;
    return provider;
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

Session::Session(Role role, const Limits& limits, const Counters& counters, io::Loop& loop,
                 Owner& owner)
    : limits_(limits),
      counters_(counters),
      loop_(loop),
      owner_(owner),
      role_(role),
      name_values_(std::make_unique<NameValues>()),
      resets_(std::make_unique<RateLimit>(limits.resets_per_second, loop.turn_time())),
      control_frames_(
          std::make_unique<RateLimit>(limits.control_frames_per_second, loop.turn_time())) {
  static nghttp2_session_callbacks* const callbacks = Callbacks::make();
  nghttp2_option* option = nullptr;
  CHECK(nghttp2_option_new(&option) == 0);
  nghttp2_option_set_no_auto_window_update(option, 1);
  nghttp2_option_set_no_closed_streams(option, 1);
  nghttp2_option_set_stream_reset_rate_limit(option, kLibraryResetBurst, kLibraryResetBurst);
  nghttp2_option_set_max_outbound_ack(option, control_frames_->burst() + kLibraryAcksBeyondOurs);
  const auto make =
      role == Role::kServer ? nghttp2_session_server_new2 : nghttp2_session_client_new2;
  CHECK(make(&session_, callbacks, this, option) == 0);
  nghttp2_option_del(option);
  const std::array<nghttp2_settings_entry, 3> settings = {{
      role == Role::kServer
          ? nghttp2_settings_entry{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, limits.streams_max}
          : nghttp2_settings_entry{NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
      {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, limits.stream_window_bytes},
      {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, limits.header_list_bytes_max},
  }};
  CHECK(nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, settings.data(), settings.size()) ==
        0);
  CHECK(nghttp2_session_set_local_window_size(
            session_, NGHTTP2_FLAG_NONE, 0, static_cast<int32_t>(limits.connection_window_bytes)) ==
        0);
}

Session::~Session() {
  close_all(Error::kCancel);
  nghttp2_session_del(session_);
}

// --- bytes

bool Session::receive(std::string_view input) {
  if (dead_) return false;
  heard_ = true;
  const ssize_t n = nghttp2_session_mem_recv(session_, bytes(input), input.size());
  if (n < 0) {
    counters_.protocol_errors.add();
    if (n != NGHTTP2_ERR_BAD_CLIENT_MAGIC)
      nghttp2_session_terminate_session(
          session_, n == NGHTTP2_ERR_FLOODED ? NGHTTP2_ENHANCE_YOUR_CALM : NGHTTP2_PROTOCOL_ERROR);
    dead_ = true;
  }
  return !dead_;
}

bool Session::collect(Gather& gather, size_t bytes_max) {
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

bool Session::collected() {
  sent_.swap(touched_);
  for (auto* stream : sent_) {
    stream->touched_ = false;
    stream->output_.release_drained();
    if (stream->open()) stream->on_output_sent();
  }
  sent_.clear();
  closed_.clear();
  return nghttp2_session_want_write(session_) != 0;
}

bool Session::over() const {
  return nghttp2_session_want_read(session_) == 0 && nghttp2_session_want_write(session_) == 0;
}

void Session::end_session(Error error, std::string_view why) {
  if (dead_) return;
  log::warn("closing an HTTP/2 connection", {{"reason", why}});
  terminate(error);
  dead_ = true;
}

void Session::terminate(Error error) {
  nghttp2_session_terminate_session(session_, static_cast<uint32_t>(error));
  owner_.output_ready();
}

bool Session::count_control_frame() {
  if (dead_) return false;
  if (control_frames_->pass(loop_.turn_time())) return true;
  counters_.control_frames_refused.add();
  end_session(Error::kCalm, "too many control frames");
  return false;
}

void Session::drain() {
  if (std::exchange(draining_, true)) return;
  nghttp2_submit_shutdown_notice(session_);
  nghttp2_submit_ping(session_, NGHTTP2_FLAG_NONE, nullptr);
  owner_.output_ready();
}

// --- streams

void Session::begin_stream(int32_t id) {
  auto& stream = *streams_.emplace_front(owner_.open_stream());
  stream.self_ = streams_.begin();
  stream.session_ = this;
  stream.id_ = id;
  nghttp2_session_set_stream_user_data(session_, id, &stream);
}

bool Session::can_request() const {
  return !dead_ && nghttp2_session_check_request_allowed(session_) != 0 &&
         streams_.size() <
             nghttp2_session_get_remote_settings(session_, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
}

void Session::request(std::unique_ptr<Stream> added, std::span<const HeaderField> head, bool last) {
  auto& stream = *streams_.emplace_front(std::move(added));
  stream.self_ = streams_.begin();
  stream.session_ = this;
  stream.head_sent_ = true;
  stream.finished_ = last;
  auto provider = Callbacks::output_of(stream);
  const auto& nv = fields(head);
  stream.id_ = nghttp2_submit_request(session_, nullptr, nv.data(), nv.size(),
                                      last ? nullptr : &provider, &stream);
  CHECK(stream.id_ > 0);
  owner_.output_ready();
}

void Session::close_stream(Stream& stream, Error error) {
  nghttp2_session_set_stream_user_data(session_, stream.id_, nullptr);
  if (stream.touched_) std::erase(touched_, &stream);
  stream.touched_ = false;
  stream.session_ = nullptr;
  closed_.splice(closed_.begin(), streams_, stream.self_);
  stream.on_closed(error);
  if (!gather_) owner_.output_ready();  // so that collected() comes
}

void Session::close_all(Error error) {
  while (!streams_.empty()) close_stream(*streams_.front(), error);
}

const Session::NameValues& Session::fields(std::span<const HeaderField> fields) {
  name_values_->clear();
  for (const auto& [name, value] : fields)
    name_values_->push_back(
        {bytes(name), bytes(value), name.size(), value.size(), NGHTTP2_NV_FLAG_NONE});
  return *name_values_;
}

Stream::~Stream() = default;

bool Stream::within_header_list(std::string_view name, std::string_view value) {
  const size_t before = header_bytes_, max = session_->limits_.header_list_bytes_max;
  header_bytes_ += name.size() + value.size() + 32;
  if (header_bytes_ <= max) return true;
  if (before <= max) session_->counters_.headers_refused.add();
  return false;
}

void Stream::send_head(std::span<const HeaderField> fields, bool last) {
  if (!session_ || !SOFT_CHECK(!head_sent_)) return;
  head_sent_ = true;
  finished_ = last;
  auto provider = Callbacks::output_of(*this);
  const auto& nv = session_->fields(fields);
  SOFT_CHECK(nghttp2_submit_response(session_->session_, id_, nv.data(), nv.size(),
                                     last ? nullptr : &provider) == 0);
  session_->owner_.output_ready();
}

void Stream::send_interim(std::span<const HeaderField> fields) {
  if (!session_ || head_sent_) return;
  const auto& nv = session_->fields(fields);
  SOFT_CHECK(nghttp2_submit_headers(session_->session_, NGHTTP2_FLAG_NONE, id_, nullptr, nv.data(),
                                    nv.size(), nullptr) == 0);
  session_->owner_.output_ready();
}

void Stream::send(std::span<const Piece> pieces) {
  if (!session_ || finished_) return;
  for (const auto& piece : pieces) output_.push(piece);
  resume();
}

void Stream::finish(std::span<const HeaderField> trailers) {
  if (!session_ || std::exchange(finished_, true)) return;
  for (const auto& [name, value] : trailers) trailers_.emplace_back(name, value);
  resume();
}

void Stream::resume() {
  if (std::exchange(deferred_, false)) nghttp2_session_resume_data(session_->session_, id_);
  session_->owner_.output_ready();
}

void Stream::reset(Error error) {
  if (!session_) return;
  nghttp2_submit_rst_stream(session_->session_, NGHTTP2_FLAG_NONE, id_,
                            static_cast<uint32_t>(error));
  session_->owner_.output_ready();
}

void Stream::consume(size_t bytes) {
  if (!session_ || bytes == 0) return;
  nghttp2_session_consume_stream(session_->session_, id_, bytes);
  session_->owner_.output_ready();
}

}  // namespace llmd::http2
