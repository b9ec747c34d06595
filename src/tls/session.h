#pragma once

#include "io/buffer_pool.h"
#include "tls/context.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <sys/types.h>
#include <sys/uio.h>

struct bio_st;

namespace llmd::tls {

/// The TLS of one connection: OpenSSL between a socket and its user. Ciphertext is received by
/// OpenSSL's own buffer and sent from `cipher_`, which takes all that one write makes, so that a
/// write is one system call. Threading: one loop.
class Session {
 public:
  /// Of a server. `fd` outlives the session.
  Session(int fd, std::shared_ptr<Context> context, io::BufferPool& buffers);
  /// Of a client.
  Session(int fd, std::shared_ptr<Target> target, io::BufferPool& buffers);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // As in Stream.
  uint32_t on_ready(uint32_t ready);
  ssize_t read(char* into, size_t room);
  bool more() const { return more_; }
  ssize_t write(std::span<const iovec> pieces);
  bool quiet();
  void say_end();
  bool established() const { return state_ == State::kOpen; }
  bool agreed_on(std::string_view protocol) const;
  bool refused() const { return refused_; }
  uint64_t sent() const { return sent_; }

  static int on_new_ticket(ssl_st* ssl, ssl_session_st* session);

 private:
  enum class State : uint8_t { kHandshake, kOpen, kEnded, kBroken };
  struct Socket;
  struct Position;

  void start();
  void shake_hands();
  void break_off(const char* when);
  void end_abruptly();
  bool encrypt(Position& from, size_t size);
  bool flush();

  const int fd_;
  uint64_t load_ = 0;  // of the context
  ssl_st* const ssl_;
  const std::shared_ptr<Context> context_;
  const std::shared_ptr<Target> target_;  // of a client
  io::BufferPool& buffers_;
  State state_ = State::kHandshake;
  bool drained_ = false;    // the last receive emptied the socket
  bool peer_gone_ = false;  // its end of the stream is in the socket
  bool more_ = false;
  bool unsendable_ = false;
  bool refused_ = false;
  bool got_data_ = false;
  size_t silent_bytes_ = 0;  // received since the last that was for the user
  io::Buffer cipher_;
  size_t cipher_sent_ = 0;
  size_t owed_ = 0;    // bytes of the user that are in cipher_, and that it takes for unsent
  uint64_t sent_ = 0;  // bytes of ciphertext
};

}  // namespace llmd::tls
