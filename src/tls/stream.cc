#include "tls/stream.h"

#include "session.h"

namespace llmd::tls {

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
bool Stream::session_quiet() {
  return session_->quiet();
}
bool Stream::session_established() const {
  return session_->established();
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
