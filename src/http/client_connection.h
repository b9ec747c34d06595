#pragma once

#include "deadline.h"
#include "parser.h"

#include "http/client.h"
#include "tls/stream.h"

#include <list>
#include <memory>
#include <unordered_map>
#include <vector>

namespace llmd::http {

struct DestinationHash {
  size_t operator()(const Destination& d) const {
    return d.address.hash() ^ (d.generation * 0x9e3779b97f4a7c15);
  }
};
struct DestinationEqual {
  bool operator()(const Destination& a, const Destination& b) const {
    return a.generation == b.generation && a.address == b.address && a.unix_path == b.unix_path;
  }
};
/// A socket on its way there.
inline Result<io::Fd> connect(const Destination& to) {
  return to.unix_path.empty() ? io::connect_tcp(to.address) : io::connect_unix(to.unix_path);
}

/// The connections to one destination. Exists while there is any.
struct ClientPeer {
  Destination destination;
  std::vector<ClientConnection*> idle;  // the most recently used last
  size_t connections = 0;
  bool purged = false;
};

struct Client::State {
  State(io::Loop& l, ClientOptions o) : loop(l), options(o) {}

  ClientPeer& peer(const Destination& destination);
  /// A kept connection if there is one and `fresh` is not asked for, else a new one under way.
  ClientConnection& connection_to(const Destination& destination, bool fresh);
  void erase(ClientConnection& connection);

  io::Loop& loop;
  const ClientOptions options;
  std::unordered_map<Destination, std::unique_ptr<ClientPeer>, DestinationHash, DestinationEqual>
      peers;
  std::list<ClientConnection> connections;
  size_t idle = 0;
  uint64_t made = 0;
  std::vector<HeaderField> fields;  // of the head being reported
  io::Buffer scratch;               // what reads go to: answers are consumed before the next read
};

/// One connection: kConnecting → kActive ⇄ kIdle → kClosed. Sending and receiving go on side by
/// side while active: an answer may come before the request is out. Closed objects live until the
/// end of the turn.
struct ClientConnection final : io::Pollable, io::TurnTask {
  ClientConnection(Client::State& client, ClientPeer& peer);
  ~ClientConnection() override;

  void on_ready(uint32_t ready) override;
  void at_turn_end() override;

  /// Serves `call`: sends at once, or when connected.
  void begin(Call& new_call, const CallRequest& request);
  /// Takes over the call of `failed`, to send its request once more.
  void begin_again(ClientConnection& failed);
  /// The call wants no answer any more.
  void abandon();
  void close();

  Call* call = nullptr;
  std::list<ClientConnection>::iterator self;

 private:
  friend class Call;
  friend struct Client::State;
  enum class State : uint8_t { kConnecting, kActive, kIdle, kClosed };
  /// Whether the other end has acknowledged any byte of the current request.
  bool peer_took_any() const;
  Failure failure_at_end() const;
  /// What became of bytes that were read.
  enum class Next : uint8_t { kRead, kStop };

  void connected();
  void serialise(const CallRequest& request);
  bool sent() const { return next_piece_ == pieces_.size(); }
  void send();
  void count_sent(size_t n);
  void receive();
  Next take(char* bytes, size_t size);
  Next report_head(std::string_view head);
  Next take_body(char* bytes, size_t size);
  Next report(std::string_view data, bool last, size_t unread);
  void end_of_stream(bool reset);
  void fail(Failure failure);
  void fail_later(Failure failure);
  void rest();
  void on_deadline();

  Client::State& client_;
  ClientPeer& peer_;
  tls::Stream stream_;
  State state_ = State::kConnecting;
  bool reused_ = false;
  bool readable_ = false;
  bool peer_gone_ = false;
  bool blocked_ = false;
  bool paused_ = false;
  bool failed_ = false;  // reported at the end of the turn
  Failure failure_ = Failure::kReset;
  bool head_method_ = false;
  bool began_sending_ = false;
  bool answered_ = false;  // a byte of the answer has come
  bool head_done_ = false;
  bool keep_alive_ = false;
  Framing framing_ = Framing::kNone;
  uint64_t body_left_ = 0;

  io::Buffer head_;  // of the request
  std::vector<std::string_view>
      pieces_;  // that head and the body; kept whole for sending them again
  size_t next_piece_ = 0;
  size_t piece_sent_ = 0;
  uint64_t bytes_sent_ = 0;          // of requests, over the life of the connection
  uint64_t bytes_sent_earlier_ = 0;  // to the socket, before the current request
  HeadScanner scanner_;
  ChunkDecoder decoder_;
  io::Buffer partial_;  // a head that came in parts
  Deadline deadline_;
};

}  // namespace llmd::http
