#pragma once

#include "tls/stream.h"

#include <algorithm>
#include <string>
#include <string_view>

/// One end of a connection for tests.
namespace llmd::tls::testing {

/// Reads everything, and writes what it is told as far as the socket takes it.
class Link final : public io::Pollable {
 public:
  Link(io::Loop& loop, Stream stream) : loop_(loop), stream_(std::move(stream)) {
    loop_.watch(stream_.fd(), *this);
  }
  ~Link() { close(); }

  void on_ready(uint32_t ready) override {
    ready = stream_.on_ready(ready);
    if (ready & io::kPeerGone) peer_gone_ = true;
    if (ready & io::kReadable) readable_ = true;
    if (ready & io::kWritable) {
      opened_ |= stream_.established();
      write_more();
    }
    if (reads) read_all();
  }

  void write(std::string_view bytes) {
    unsent_ += bytes;
    write_more();
  }
  void read_all() {
    while (readable_ && !ended && !broken) {
      char space[20'000];
      const ssize_t n = stream_.read(space, sizeof space);
      if (n > 0) {
        seen.append(space, static_cast<size_t>(n));
        readable_ = peer_gone_ || stream_.more(static_cast<size_t>(n), sizeof space);
        continue;
      }
      readable_ = false;
      ended = n == 0;
      broken = n < 0 && errno != EAGAIN;
    }
  }
  void close() {
    if (!stream_) return;
    loop_.forget(*this);
    stream_.close();
  }

  /// The handshake has succeeded; plain: the connection is there.
  bool opened() const { return opened_; }
  bool all_sent() const { return unsent_.empty(); }
  Stream& stream() { return stream_; }

  bool reads = true;
  bool ended = false;
  bool broken = false;
  std::string seen;

 private:
  /// Offers the bytes in pieces, as users do.
  void write_more() {
    while (!unsent_.empty()) {
      const size_t first = std::min<size_t>(unsent_.size(), 100);
      const size_t second = std::min<size_t>(unsent_.size() - first, 70'000);
      const iovec pieces[] = {{unsent_.data(), first},
                              {unsent_.data(), 0},
                              {unsent_.data() + first, second},
                              {unsent_.data() + first + second, unsent_.size() - first - second}};
      const ssize_t n = stream_.write(pieces);
      if (n < 0) {
        write_failed = errno != EAGAIN;
        return;
      }
      unsent_.erase(0, static_cast<size_t>(n));
    }
  }

  io::Loop& loop_;
  Stream stream_;
  std::string unsent_;
  bool readable_ = false;
  bool peer_gone_ = false;
  bool opened_ = false;

 public:
  bool write_failed = false;
};

}  // namespace llmd::tls::testing
