#pragma once

#include "base/clock.h"
#include "base/headers.h"
#include "base/result.h"
#include "bench/chat_stream.h"
#include "io/socket.h"
#include "tls/context.h"

#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace llmd::bench {

/// A server to send requests to.
struct Target {
  io::SocketAddress address;
  std::string host;                  // value of the Host header
  std::shared_ptr<tls::Target> tls;  // null: plain HTTP

  /// "http://host:port" with a literal address or a name that resolves now; the port defaults
  /// to 80. With a `context` also "https://host:port"; the port defaults to 443.
  static Result<Target> parse(std::string_view url,
                              const std::shared_ptr<tls::Context>& context = nullptr);
};

struct Answer {
  int status = 0;
  std::string body;
};

/// A streamed chat and its times on the client's clock.
struct Chat {
  int status = 0;
  ChatStream stream;
  TimePoint sent{};
  TimePoint ended{};
  std::string error_body;  // with a status other than 200
};

/// One request at a time over kept connections; every call waits for its whole answer.
/// Threading: one thread, which runs the event loop while it waits.
class BlockingClient {
 public:
  /// `timeout` bounds every exchange.
  explicit BlockingClient(Nanos timeout = std::chrono::seconds(60));
  ~BlockingClient();

  Result<Answer> get(const Target& target, std::string_view path,
                     std::span<const HeaderField> headers = {});
  Result<Answer> post(const Target& target, std::string_view path, std::string_view body);
  /// POST /v1/chat/completions; `body` asks for a stream.
  Result<Chat> chat(const Target& target, std::string_view body, std::string_view request_id);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace llmd::bench
