#pragma once

#include "base/result.h"
#include "io/loop.h"

#include <array>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <zmq.h>

/// ZeroMQ sockets on our loops. Nothing blocks: what cannot be sent at once is dropped and said so.
namespace llmd::kv_events {

/// libzmq with its I/O thread. Outlives its sockets. Threading: any.
class ZmqContext {
 public:
  explicit ZmqContext(int sockets_max = 1023);
  ~ZmqContext();
  ZmqContext(const ZmqContext&) = delete;
  ZmqContext& operator=(const ZmqContext&) = delete;
  void* handle() { return handle_; }

 private:
  void* handle_;
};

/// One message: its frames, without a copy. Frames beyond kFramesMax are received and not kept.
class ZmqMessage {
 public:
  static constexpr size_t kFramesMax = 5;

  ZmqMessage() = default;
  ~ZmqMessage() { clear(); }
  ZmqMessage(ZmqMessage&& other) noexcept;
  ZmqMessage& operator=(ZmqMessage&& other) noexcept;

  /// As received; may be more than kFramesMax.
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  /// Requires: i < size(), i < kFramesMax. The view holds as long as the message stays in place.
  std::string_view frame(size_t i) const;
  void clear();

 private:
  friend class ZmqSocket;
  size_t kept() const { return size_ < kFramesMax ? size_ : kFramesMax; }

  std::array<zmq_msg_t, kFramesMax> frames_;
  size_t size_ = 0;
};

/// Threading: one thread at a time. Closing drops what is not sent yet.
class ZmqSocket {
 public:
  struct Options {
    int receive_messages_max = 1000;  // a connection that has more waits, then its sender drops
    int send_messages_max = 1000;
    int64_t message_bytes_max = -1;  // a peer that sends larger ones is disconnected; -1: any
  };

  /// `type`: ZMQ_SUB and the like. CHECKs on exhaustion of descriptors and sockets.
  ZmqSocket(ZmqContext& context, int type, const Options& options);
  ZmqSocket(ZmqContext& context, int type) : ZmqSocket(context, type, Options()) {}
  ~ZmqSocket();
  ZmqSocket(const ZmqSocket&) = delete;
  ZmqSocket& operator=(const ZmqSocket&) = delete;

  /// Errors name the endpoint.
  Status bind(const std::string& endpoint);
  Status connect(const std::string& endpoint);
  /// Of a SUB socket: topics that begin so.
  void subscribe(std::string_view prefix);
  /// Reports connections as messages of two frames on a ZMQ_PAIR socket that connects to
  /// `endpoint`, inproc://….
  void monitor(const std::string& endpoint, int events);
  /// What bind() got, where a port was left open.
  std::string bound_endpoint() const;

  /// False when no message waits.
  bool receive(ZmqMessage& message);
  /// False when the message was dropped: its receiver is gone or too slow.
  bool send(std::initializer_list<std::string_view> frames);
  int fd() const;
  void* handle() { return handle_; }

 private:
  void* handle_;
};

/// Who reads a socket.
class ZmqReader {
 public:
  /// Reads some of what waits; returns whether there may be more. May destroy the watch.
  virtual bool read_some(ZmqSocket& socket) = 0;

 protected:
  ~ZmqReader() = default;
};

/// Lets a loop watch a socket. The reader is called until it has read all, in one turn after the
/// other, so that no socket keeps others from their turn. Threading: the loop's thread.
class ZmqWatch final : io::Pollable, io::TurnTask {
 public:
  ZmqWatch(io::Loop& loop, ZmqSocket& socket, ZmqReader& reader);
  ~ZmqWatch() override;
  ZmqWatch(const ZmqWatch&) = delete;
  ZmqWatch& operator=(const ZmqWatch&) = delete;

  /// Calls the reader at the end of this turn. Needed after send(), which may swallow the report of
  /// what has arrived, and after a reader stopped on its own account.
  void wake() { loop_.at_turn_end(*this); }

 private:
  void on_ready(uint32_t) override { wake(); }
  void at_turn_end() override;

  io::Loop& loop_;
  ZmqSocket& socket_;
  ZmqReader& reader_;
  const int fd_;
  bool* gone_ = nullptr;
};

}  // namespace llmd::kv_events
