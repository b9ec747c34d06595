#include "base/check.h"
#include "http/server.h"

#include <cstdint>
#include <cstdlib>
#include <sys/socket.h>
#include <unistd.h>

/// Sends a server whatever an HTTP/2 client may send, in pieces, over a socket pair.
namespace {

using namespace llmd;

class Echo final : public http::RequestHandler {
 public:
  void on_request(http::Exchange& exchange) override {
    if (exchange.head().target.ends_with("stream")) {
      exchange.stream_body();
      exchange.start(200, {});
    }
    if (exchange.head().target.ends_with("early")) exchange.respond(400, {}, "early");
  }
  void on_body(http::Exchange& exchange, std::string_view body) override {
    if (exchange.started()) exchange.write(body);
  }
  void on_request_end(http::Exchange& exchange, std::string_view body) override {
    const HeaderField trailer{"x-end", "1"};
    exchange.started() ? exchange.finish({&trailer, 1}) : exchange.respond(200, {}, body);
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  io::Loop loop(0, 1);
  const auto budget = std::make_shared<io::ByteBudget>(1 << 20);
  {
    http::Server server(loop,
                        {.head_bytes_max = 4096,
                         .headers_max = 20,
                         .body_bytes_max = 10'000,
                         .body_budget = budget,
                         .http2 = true},
                        [] { return std::make_unique<Echo>(); });
    int ends[2];
    CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0);
    server.adopt(io::Fd(ends[0]));
    const auto send = [&](std::string_view bytes) {
      char answer[65536];
      while (!bytes.empty()) {
        const ssize_t n = ::send(ends[1], bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (n < 0) break;
        bytes.remove_prefix(static_cast<size_t>(n));
        loop.turn(Nanos(0));
        while (::recv(ends[1], answer, sizeof answer, 0) > 0) {
        }
      }
    };
    // Past the client's preface, so that the fuzzer need not find it.
    send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    const size_t step = 1 + size_t{data[0]} * (1 + data[1] % 64);
    for (size_t at = 2; at < size; at += step)
      send({reinterpret_cast<const char*>(data) + at, std::min(step, size - at)});
    ::close(ends[1]);
    for (int i = 0; i < 4; ++i) loop.turn(Nanos(0));
    CHECK(server.open_exchanges() == 0);
  }
  CHECK(budget->used() == 0);
  return 0;
}
