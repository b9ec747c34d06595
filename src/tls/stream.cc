#include "tls/stream.h"

#include "session.h"

#include <algorithm>
#include <array>

namespace llmd::tls {

namespace {

/// The system takes one piece sooner than several; fewer bytes than these are cheaper to join.
constexpr size_t kJoinBytesMax = 2048;

size_t size_of(std::span<const iovec> pieces) {
  size_t total = 0;
  for (const auto& piece : pieces) total += piece.iov_len;
  return total;
}

}  // namespace

Stream::Stream() = default;
Stream::Stream(io::Fd fd, const std::shared_ptr<Context>& context, io::BufferPool& buffers)
    : fd_(std::move(fd)) {
  if (context) session_ = std::make_unique<Session>(fd_.get(), context, buffers);
}
Stream::Stream(io::Fd fd, const std::shared_ptr<Target>& target, io::BufferPool& buffers)
    : fd_(std::move(fd)) {
  if (target) session_ = std::make_unique<Session>(fd_.get(), target, buffers);
}
Stream::Stream(Stream&&) noexcept = default;
Stream& Stream::operator=(Stream&&) noexcept = default;
Stream::~Stream() = default;

void Stream::close() {
  session_.reset();
  fd_.reset();
}

uint32_t Stream::session_on_ready(uint32_t ready) {
  return session_->on_ready(ready);
}
ssize_t Stream::session_read(char* into, size_t room) {
  return session_->read(into, room);
}
bool Stream::session_more() const {
  return session_->more();
}
ssize_t Stream::session_write(std::span<const iovec> pieces) {
  return session_->write(pieces);
}
ssize_t Stream::plain_write(std::span<const iovec> pieces) {
  std::array<char, kJoinBytesMax> joined;
  iovec one{};
  if (pieces.size() == 1) {
    one = pieces[0];
  } else if (const size_t total = size_of(pieces); total <= joined.size()) {
    one = {joined.data(), total};
    char* end = joined.data();
    for (const auto& piece : pieces)
      end = std::copy_n(static_cast<const char*>(piece.iov_base), piece.iov_len, end);
  }
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(pieces.data());
  message.msg_iovlen = pieces.size();
  ssize_t n;
  do {
    n = one.iov_base ? ::send(fd_.get(), one.iov_base, one.iov_len, MSG_NOSIGNAL)
                     : ::sendmsg(fd_.get(), &message, MSG_NOSIGNAL);
  } while (n < 0 && errno == EINTR);
  return n;
}
bool Stream::session_quiet() {
  return session_->quiet();
}
bool Stream::session_established() const {
  return session_->established();
}
bool Stream::session_agreed_on(std::string_view protocol) const {
  return session_->agreed_on(protocol);
}
bool Stream::session_refused() const {
  return session_->refused();
}
uint64_t Stream::session_sent() const {
  return session_->sent();
}
void Stream::session_say_end() {
  session_->say_end();
}

}  // namespace llmd::tls
