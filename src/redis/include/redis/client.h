#pragma once

#include "fleet/address.h"
#include "io/loop.h"
#include "redis/address.h"
#include "redis/reply.h"
#include "tls/stream.h"

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace llmd::redis {

/// Who sent commands. Lifetime: until the last of their replies, a failure, or forget().
class ReplyHandler {
 public:
  /// The reply to the next command, in order.
  virtual void on_reply(const Reply& reply) = 0;
  /// The connection broke, or no reply came in time: no more replies will come. Whether commands
  /// that were not answered had an effect is not known.
  virtual void on_failure() = 0;

 protected:
  ~ReplyHandler() = default;
};

struct ClientOptions {
  Nanos connect_timeout = std::chrono::seconds(1);   // with TLS, AUTH and SELECT
  Nanos reply_timeout = std::chrono::seconds(1);     // from the reply before
  Nanos retry_min = std::chrono::milliseconds(100);  // doubles with each failure, ± 25 %
  Nanos retry_max = std::chrono::seconds(5);
  size_t reply_bytes_max = size_t{16} << 20;
};

/// One kept connection to a server, for pipelined commands. Breaks are noticed, and the server is
/// connected to again, with growing pauses, as long as this lives. A server that does not answer in
/// time is treated as one that went away, so replies never get out of step.
/// Threading: one loop, which a look-up of the server's name may block. Memory: what users have
/// under way, and one reply.
class Client final : io::Pollable, io::TurnTask {
 public:
  /// `tls`: for an address with TLS. `on_change` is told when the connection is up(), and why when
  /// it is not any more; the second also after every attempt that failed. By then handlers know.
  Client(io::Loop& loop, Address address, std::shared_ptr<tls::Context> tls,
         fleet::Resolver resolver, std::function<void(bool up, std::string_view why)> on_change,
         ClientOptions options = {});
  ~Client() override;

  /// Begins to connect.
  void open();
  bool up() const { return state_ == State::kUp; }

  /// Sends `count` commands at the end of the turn; `handler` gets as many replies.
  /// Requires: up(), count > 0.
  void send(std::string_view commands, size_t count, ReplyHandler& handler);
  /// Replies that are still to come for this handler are dropped.
  void forget(const ReplyHandler& handler);

 private:
  enum class State : uint8_t { kClosed, kPaused, kConnecting, kGreeting, kUp };
  struct Expected {
    ReplyHandler* handler;  // null: nobody wants them
    size_t count;
  };
  /// Checks the answers to what is said first.
  struct Greeting final : ReplyHandler {
    explicit Greeting(Client& c) : client(c) {}
    void on_reply(const Reply& reply) override;
    void on_failure() override {}
    Client& client;
    size_t left = 0;
  };

  void connect();
  Result<io::Fd> connect_socket();
  void connected();
  void greet();
  void on_ready(uint32_t ready) override;
  void at_turn_end() override;
  void write();
  void read();
  /// Hands on the replies that are there. False: the connection is not what it was.
  bool take_replies();
  void take_reply(const Reply& reply);
  /// Bounds the time until the next reply.
  void expect_next();
  /// Ends the connection; the next attempt comes after a pause.
  void lose(std::string_view why);
  void pause();

  io::Loop& loop_;
  const Address address_;
  const fleet::Resolver resolver_;
  const std::function<void(bool, std::string_view)> on_change_;
  const ClientOptions options_;
  std::shared_ptr<tls::Target> target_;  // null: plain
  State state_ = State::kClosed;
  uint64_t connections_ = 0;
  Nanos retry_;
  tls::Stream stream_;
  bool readable_ = false;
  bool peer_gone_ = false;
  io::Timer timer_;  // of the pause, the attempt, the reply
  Greeting greeting_{*this};
  std::deque<Expected> expected_;
  std::string out_;  // commands
  size_t sent_ = 0;  // of it
  io::Buffer in_;    // the beginning of a reply, at least
  ReplyScanner scanner_;
};

}  // namespace llmd::redis
