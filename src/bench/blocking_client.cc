#include "bench/blocking_client.h"

#include "base/text.h"
#include "http/client.h"
#include "io/loop.h"

#include <fmt/format.h>

#include <functional>
#include <netdb.h>
#include <optional>
#include <span>

namespace llmd::bench {
namespace {

constexpr std::string_view kPlain = "http://";
constexpr std::string_view kSecure = "https://";

/// Notes how one call ends.
struct Exchange final : http::CallHandler {
  std::function<void(int status, std::string_view data)> on_bytes;
  int status = 0;
  bool done = false;
  std::optional<http::Failure> failure;

  void on_response(const http::ResponseHead& head) override { status = head.status; }
  void on_data(std::string_view data, bool last) override {
    on_bytes(status, data);
    done = last;
  }
  void on_failure(http::Failure f) override {
    failure = f;
    done = true;
  }
};

Result<io::SocketAddress> resolve(const std::string& host, uint16_t port) {
  if (auto literal = io::SocketAddress::parse(host, port)) return literal;
  addrinfo hints{};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), nullptr, &hints, &found); error != 0)
    return fail(Code::kNotFound, fmt::format("cannot resolve '{}': {}", host, gai_strerror(error)));
  char text[NI_MAXHOST];
  const int error =
      getnameinfo(found->ai_addr, found->ai_addrlen, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
  freeaddrinfo(found);
  if (error != 0) return fail(Code::kNotFound, fmt::format("cannot resolve '{}'", host));
  return io::SocketAddress::parse(text, port);
}

}  // namespace

Result<Target> Target::parse(std::string_view url, const std::shared_ptr<tls::Context>& context) {
  const bool secure = context && url.starts_with(kSecure);
  if (!secure && !url.starts_with(kPlain))
    return fail(Code::kBadRequest, fmt::format("'{}' does not start with {}{}", url, kPlain,
                                               context ? " or https://" : ""));
  std::string_view authority = url.substr(secure ? kSecure.size() : kPlain.size());
  authority = authority.substr(0, authority.find('/'));
  std::string_view host = authority;
  int64_t port = secure ? 443 : 80;
  if (const size_t colon = authority.rfind(':');
      colon != authority.npos && !authority.ends_with(']')) {
    host = authority.substr(0, colon);
    port = parse_int(authority.substr(colon + 1)).value_or(-1);
  }
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  if (host.empty() || port < 1 || port > 65535)
    return fail(Code::kBadRequest,
                fmt::format("'{}' is not a URL of the form http://host:port", url));
  Target target;
  target.host = authority;
  LLMD_TRY_ASSIGN(target.address, resolve(std::string(host), static_cast<uint16_t>(port)));
  if (secure) target.tls = std::make_shared<tls::Target>(context, std::string(host));
  return target;
}

struct BlockingClient::State {
  explicit State(Nanos t) : timeout(t), loop(0, random_seed()), client(loop) {}

  /// Runs the loop until the exchange ends. `on_bytes` hears the body as it arrives.
  Result<int> exchange(const Target& target, const http::CallRequest& request,
                       std::function<void(int status, std::string_view data)> on_bytes) {
    Exchange exchange;
    exchange.on_bytes = std::move(on_bytes);
    http::Call call(client, exchange);
    const TimePoint deadline = loop.clock().now() + timeout;
    call.start({.address = target.address, .tls = target.tls}, request);
    while (!exchange.done) {
      const Nanos left = deadline - loop.clock().now();
      if (left <= Nanos{0}) {
        call.abort();
        exchange.failure = http::Failure::kTimeout;
        break;
      }
      loop.turn(left);
    }
    if (exchange.failure)
      return fail(Code::kServiceUnavailable,
                  fmt::format("{} {}{}: {}", request.method, target.host, request.target,
                              http::text_of(*exchange.failure)));
    return exchange.status;
  }

  Nanos timeout;
  io::Loop loop;
  http::Client client;
};

BlockingClient::BlockingClient(Nanos timeout) : state_(std::make_unique<State>(timeout)) {}
BlockingClient::~BlockingClient() = default;

Result<Answer> BlockingClient::get(const Target& target, std::string_view path,
                                   std::span<const HeaderField> headers) {
  Answer answer;
  LLMD_TRY_ASSIGN(
      answer.status,
      state_->exchange(target,
                       {.method = "GET", .target = path, .host = target.host, .headers = headers},
                       [&](int, std::string_view data) { answer.body += data; }));
  return answer;
}

Result<Answer> BlockingClient::post(const Target& target, std::string_view path,
                                    std::string_view body) {
  Answer answer;
  const HeaderField headers[] = {{"Content-Type", "application/json"}};
  LLMD_TRY_ASSIGN(answer.status,
                  state_->exchange(target,
                                   {.method = "POST",
                                    .target = path,
                                    .host = target.host,
                                    .headers = headers,
                                    .body = std::span(&body, 1)},
                                   [&](int, std::string_view data) { answer.body += data; }));
  return answer;
}

Result<Chat> BlockingClient::chat(const Target& target, std::string_view body,
                                  std::string_view request_id) {
  Chat chat;
  const HeaderField headers[] = {{"Content-Type", "application/json"},
                                 {"X-Request-Id", request_id}};
  const Clock& clock = state_->loop.clock();
  chat.sent = clock.now();
  LLMD_TRY_ASSIGN(chat.status, state_->exchange(target,
                                                {.method = "POST",
                                                 .target = "/v1/chat/completions",
                                                 .host = target.host,
                                                 .headers = headers,
                                                 .body = std::span(&body, 1)},
                                                [&](int status, std::string_view data) {
                                                  if (status == 200)
                                                    chat.stream.feed(data, clock.now());
                                                  else
                                                    chat.error_body += data;
                                                }));
  chat.ended = clock.now();
  return chat;
}

}  // namespace llmd::bench
