#include "kv_events/zmq_socket.h"

#include "base/check.h"

#include <fmt/format.h>

#include <cerrno>
#include <utility>

#if defined(__SANITIZE_THREAD__)
/// libzmq is not instrumented, so its hand-over of bytes from its thread to ours looks like a race.
extern "C" const char* __tsan_default_suppressions();
extern "C" const char* __tsan_default_suppressions() {
  return "called_from_lib:libzmq.so\nrace:libzmq.so\n";
}
#endif

namespace llmd::kv_events {
namespace {

void set(void* socket, int option, int value) {
  CHECK(zmq_setsockopt(socket, option, &value, sizeof value) == 0);
}

Status attach(int result, const char* what, const std::string& endpoint) {
  if (result == 0) return {};
  return fail(Code::kBadRequest,
              fmt::format("cannot {} '{}': {}", what, endpoint, zmq_strerror(zmq_errno())));
}

/// IPv6 is for addresses of its own kind, names and "*": an IPv4 address stays one.
void choose_family(void* socket, std::string_view endpoint) {
  constexpr std::string_view kTcp = "tcp://";
  const bool v4 = endpoint.starts_with(kTcp) && endpoint.size() > kTcp.size() &&
                  endpoint[kTcp.size()] >= '0' && endpoint[kTcp.size()] <= '9';
  set(socket, ZMQ_IPV6, v4 ? 0 : 1);
}

}  // namespace

ZmqContext::ZmqContext(int sockets_max) : handle_(zmq_ctx_new()) {
  CHECK(handle_);
  CHECK(zmq_ctx_set(handle_, ZMQ_MAX_SOCKETS, sockets_max) == 0);
}

ZmqContext::~ZmqContext() {
  while (zmq_ctx_term(handle_) != 0 && zmq_errno() == EINTR) {
  }
}

ZmqMessage::ZmqMessage(ZmqMessage&& other) noexcept {
  *this = std::move(other);
}

ZmqMessage& ZmqMessage::operator=(ZmqMessage&& other) noexcept {
  if (this == &other) return *this;
  clear();
  for (size_t i = 0; i < other.kept(); ++i) {
    zmq_msg_init(&frames_[i]);
    zmq_msg_move(&frames_[i], &other.frames_[i]);
  }
  size_ = other.size_;
  other.clear();
  return *this;
}

std::string_view ZmqMessage::frame(size_t i) const {
  CHECK(i < kept());
  auto* const frame = const_cast<zmq_msg_t*>(&frames_[i]);
  return {static_cast<const char*>(zmq_msg_data(frame)), zmq_msg_size(frame)};
}

void ZmqMessage::clear() {
  for (size_t i = 0; i < kept(); ++i) zmq_msg_close(&frames_[i]);
  size_ = 0;
}

ZmqSocket::ZmqSocket(ZmqContext& context, int type, const Options& options)
    : handle_(zmq_socket(context.handle(), type)) {
  CHECK(handle_);
  set(handle_, ZMQ_LINGER, 0);
  set(handle_, ZMQ_RCVHWM, options.receive_messages_max);
  set(handle_, ZMQ_SNDHWM, options.send_messages_max);
  CHECK(zmq_setsockopt(handle_, ZMQ_MAXMSGSIZE, &options.message_bytes_max, sizeof(int64_t)) == 0);
  // A peer that vanished without a word is noticed, and sought again with growing pauses.
  set(handle_, ZMQ_HEARTBEAT_IVL, 5000);
  set(handle_, ZMQ_HEARTBEAT_TIMEOUT, 15000);
  set(handle_, ZMQ_RECONNECT_IVL, 100);
  set(handle_, ZMQ_RECONNECT_IVL_MAX, 5000);
}

ZmqSocket::~ZmqSocket() {
  zmq_close(handle_);
}

Status ZmqSocket::bind(const std::string& endpoint) {
  choose_family(handle_, endpoint);
  return attach(zmq_bind(handle_, endpoint.c_str()), "bind", endpoint);
}

Status ZmqSocket::connect(const std::string& endpoint) {
  choose_family(handle_, endpoint);
  return attach(zmq_connect(handle_, endpoint.c_str()), "connect to", endpoint);
}

void ZmqSocket::subscribe(std::string_view prefix) {
  CHECK(zmq_setsockopt(handle_, ZMQ_SUBSCRIBE, prefix.data(), prefix.size()) == 0);
}

void ZmqSocket::monitor(const std::string& endpoint, int events) {
  CHECK(zmq_socket_monitor(handle_, endpoint.c_str(), events) == 0);
}

std::string ZmqSocket::bound_endpoint() const {
  std::array<char, 256> name;
  size_t size = name.size();
  CHECK(zmq_getsockopt(handle_, ZMQ_LAST_ENDPOINT, name.data(), &size) == 0);
  return name.data();
}

int ZmqSocket::fd() const {
  int fd = -1;
  size_t size = sizeof fd;
  CHECK(zmq_getsockopt(handle_, ZMQ_FD, &fd, &size) == 0);
  return fd;
}

bool ZmqSocket::receive(ZmqMessage& message) {
  message.clear();
  for (int more = 1; more;) {
    zmq_msg_t frame;
    zmq_msg_init(&frame);
    // The frames of a message arrive together: only the first can be missing.
    int result;
    do result = zmq_msg_recv(&frame, handle_, ZMQ_DONTWAIT);
    while (result < 0 && zmq_errno() == EINTR);
    if (result < 0) {
      zmq_msg_close(&frame);
      message.clear();
      return false;
    }
    more = zmq_msg_more(&frame);
    if (message.size_ < ZmqMessage::kFramesMax) {
      zmq_msg_init(&message.frames_[message.size_]);
      zmq_msg_move(&message.frames_[message.size_], &frame);
    }
    ++message.size_;
    zmq_msg_close(&frame);
  }
  return true;
}

bool ZmqSocket::send(std::initializer_list<std::string_view> frames) {
  size_t left = frames.size();
  for (const std::string_view frame : frames) {
    const int flags = ZMQ_DONTWAIT | (--left > 0 ? ZMQ_SNDMORE : 0);
    int result;
    do result = zmq_send(handle_, frame.data(), frame.size(), flags);
    while (result < 0 && zmq_errno() == EINTR);
    if (result < 0) return false;
  }
  return true;
}

ZmqWatch::ZmqWatch(io::Loop& loop, ZmqSocket& socket, ZmqReader& reader)
    : loop_(loop), socket_(socket), reader_(reader), fd_(socket.fd()) {
  loop_.watch(fd_, *this);
  wake();
}

ZmqWatch::~ZmqWatch() {
  loop_.unwatch(fd_, *this);
  if (gone_) *gone_ = true;
}

void ZmqWatch::at_turn_end() {
  bool gone = false;
  gone_ = &gone;
  const bool more = reader_.read_some(socket_);
  if (gone) return;
  gone_ = nullptr;
  if (more) wake();
}

}  // namespace llmd::kv_events
