#include "redis/client.h"

#include "base/check.h"
#include "tls/context.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace llmd::redis {
namespace {

constexpr size_t kReadBytes = 64 * 1024;
/// Reads in a row before others get their turn.
constexpr int kReadsMax = 16;
/// Sent bytes that are kept in front of unsent ones before these are moved.
constexpr size_t kSentKept = size_t{1} << 20;

}  // namespace

Client::Client(io::Loop& loop, Address address, std::shared_ptr<tls::Context> tls,
               fleet::Resolver resolver, std::function<void(bool, std::string_view)> on_change,
               ClientOptions options)
    : loop_(loop),
      address_(std::move(address)),
      resolver_(std::move(resolver)),
      on_change_(std::move(on_change)),
      options_(options),
      target_(tls ? std::make_shared<tls::Target>(std::move(tls), address_.host, "") : nullptr),
      retry_(options.retry_min),
      timer_(loop),
      scanner_(options.reply_bytes_max) {}

Client::~Client() {
  if (stream_) loop_.forget(*this);
}

void Client::open() {
  CHECK(state_ == State::kClosed);
  connect();
}

void Client::connect() {
  state_ = State::kConnecting;
  ++connections_;
  auto fd = connect_socket();
  if (!fd) return lose(fd.error().message);
  stream_ = tls::Stream(std::move(*fd), target_, loop_.buffers());
  loop_.watch(stream_.fd(), *this);
  timer_.arm(options_.connect_timeout, [this] { lose("no connection in time"); });
}

Result<io::Fd> Client::connect_socket() {
  if (address_.host.empty()) return io::connect_unix(address_.socket_path);
  LLMD_TRY_ASSIGN(const auto found, resolver_(address_.host));
  if (found.empty()) return fail(Code::kServiceUnavailable, "the server's name has no address");
  // Another one with each attempt.
  LLMD_TRY_ASSIGN(const auto address, io::SocketAddress::parse(
                                          found[(connections_ - 1) % found.size()], address_.port));
  return io::connect_tcp(address);
}

void Client::on_ready(uint32_t ready) {
  ready = stream_.on_ready(ready);
  if (ready & io::kPeerGone) peer_gone_ = true;
  if (ready & (io::kReadable | io::kPeerGone)) readable_ = true;
  if (state_ == State::kConnecting) {
    if (ready & (io::kWritable | io::kPeerGone)) connected();
    if (state_ == State::kConnecting) return;
  } else if (ready & io::kWritable) {
    write();
  }
  if (readable_) read();
}

void Client::connected() {
  if (const int error = io::connect_error(stream_.fd()); error != 0)
    return lose(std::strerror(error));
  if (!stream_.established()) return lose("TLS could not be agreed on");
  greet();
}

void Client::greet() {
  state_ = State::kGreeting;
  std::string commands;
  greeting_.left = 0;
  const auto say = [&](std::initializer_list<std::string_view> words) {
    append_command(commands, words);
    ++greeting_.left;
  };
  if (!address_.user.empty())
    say({"AUTH", address_.user, address_.password});
  else if (!address_.password.empty())
    say({"AUTH", address_.password});
  if (address_.database != 0) say({"SELECT", fmt::format("{}", address_.database)});
  say({"PING"});
  out_ += commands;
  expected_.push_back({&greeting_, greeting_.left});
  write();
}

void Client::Greeting::on_reply(const Reply& reply) {
  if (reply.failed()) return client.lose(reply.text());
  if (--left != 0) return;
  client.state_ = State::kUp;
  client.retry_ = client.options_.retry_min;
  client.on_change_(true, "");
}

void Client::send(std::string_view commands, size_t count, ReplyHandler& handler) {
  CHECK(up() && count > 0);
  out_ += commands;
  expected_.push_back({&handler, count});
  if (expected_.size() == 1) expect_next();
  loop_.at_turn_end(*this);
}

void Client::forget(const ReplyHandler& handler) {
  for (auto& expected : expected_)
    if (expected.handler == &handler) expected.handler = nullptr;
}

void Client::at_turn_end() {
  if (state_ != State::kUp) return;
  write();
  if (state_ == State::kUp && readable_) read();
}

void Client::write() {
  while (sent_ < out_.size()) {
    const iovec piece = {out_.data() + sent_, out_.size() - sent_};
    const ssize_t n = stream_.write({&piece, 1});
    if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK) return lose(std::strerror(errno));
    if (n > 0) sent_ += static_cast<size_t>(n);
    if (n < static_cast<ssize_t>(piece.iov_len)) break;
  }
  if (sent_ < out_.size() && sent_ < kSentKept) return;
  out_.erase(0, sent_);
  sent_ = 0;
}

void Client::read() {
  for (int reads = 0; reads < kReadsMax; ++reads) {
    if (!in_) in_ = loop_.buffers().take(kReadBytes);
    if (in_.room_size() == 0) in_.reserve_room(1);
    const size_t limit = in_.room_size();
    const ssize_t n = stream_.read(in_.room(), limit);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      readable_ = false;
      return;
    }
    if (n <= 0) return lose(n == 0 ? "the server closed the connection" : std::strerror(errno));
    in_.commit(static_cast<size_t>(n));
    if (!take_replies()) return;
    if (!stream_.more(static_cast<size_t>(n), limit) && !peer_gone_) {
      readable_ = false;
      return;
    }
  }
  loop_.at_turn_end(*this);
}

bool Client::take_replies() {
  const uint64_t connection = connections_;
  size_t at = 0;
  while (at < in_.size()) {
    const auto bytes = in_.view().substr(at);
    const size_t size = scanner_.scan(bytes);
    if (size == ReplyScanner::kMore) break;
    if (size == ReplyScanner::kBad || expected_.empty()) {
      lose("the server broke the protocol");
      return false;
    }
    scanner_.reset();
    take_reply(Reply(bytes));
    if (connection != connections_ || state_ < State::kGreeting) return false;
    at += size;
  }
  if (at == in_.size())
    in_.release();
  else
    in_.consume(at);
  if (at != 0 && up()) expect_next();
  return true;
}

void Client::take_reply(const Reply& reply) {
  auto& next = expected_.front();
  ReplyHandler* const handler = next.handler;
  if (--next.count == 0) expected_.pop_front();
  if (handler) handler->on_reply(reply);
}

void Client::expect_next() {
  if (expected_.empty()) return timer_.cancel();
  timer_.arm(options_.reply_timeout, [this] { lose("no reply in time"); });
}

void Client::lose(std::string_view reason) {
  const std::string why(reason);  // it may lie in what is released here
  if (stream_) loop_.forget(*this);
  stream_.close();
  state_ = State::kPaused;
  readable_ = peer_gone_ = false;
  in_.release();
  scanner_.reset();
  out_.clear();
  sent_ = 0;
  pause();
  while (!expected_.empty()) {
    ReplyHandler* const handler = expected_.front().handler;
    expected_.pop_front();
    if (handler) handler->on_failure();
  }
  on_change_(false, why);
}

void Client::pause() {
  const double jitter = 0.75 + 0.5 * loop_.rng().uniform();
  timer_.arm(std::chrono::duration_cast<Nanos>(retry_ * jitter), [this] { connect(); });
  retry_ = std::min(2 * retry_, options_.retry_max);
}

}  // namespace llmd::redis
