#include "call_stream.h"

#include "base/check.h"

#include <cstdint>
#include <cstdlib>

/// Feeds a session whatever a peer may send, in pieces, and takes its output.
namespace {

using namespace llmd;

struct Owner final : http2::Session::Owner {
  explicit Owner(grpc::ServerContext& c) : context(c) {}
  void output_ready() override {}
  std::unique_ptr<http2::Stream> open_stream() override {
    return std::make_unique<grpc::CallStream>(context);
  }
  grpc::ServerContext& context;
};

class Echo final : public grpc::CallHandler {
 public:
  explicit Echo(grpc::Call& call) : call_(call) {}
  void on_message(std::string_view message) override {
    call_.send({{message}});
    if (message == "end") call_.finish(grpc::StatusCode::kOk, "ended");
  }
  void on_half_close() override { call_.finish(grpc::StatusCode::kOk); }
  void on_abort(grpc::StatusCode) override {}

 private:
  grpc::Call& call_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  io::Loop loop(0, 1);
  io::ByteBudget budget(1 << 20);
  {
    std::vector<grpc::Method> methods;
    methods.push_back({"/t.T/Echo", [](grpc::Call& call) { return std::make_unique<Echo>(call); }});
    grpc::ServerContext context(loop, {.message_bytes_max = 4096, .resets_per_second = 3},
                                std::move(methods), budget, {});
    Owner owner(context);
    http2::Session session(http2::Session::Role::kServer, context.limits(), context.counters(),
                           loop, owner);
    http2::Gather gather(loop.buffers());
    const size_t step = 1 + size_t{data[0]} * (1 + data[1] % 64);
    // Past the client's preface, so that the fuzzer need not find it.
    session.receive("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    for (size_t at = 2; at < size; at += step) {
      const std::string_view bytes(reinterpret_cast<const char*>(data) + at,
                                   std::min(step, size - at));
      if (!session.receive(bytes)) break;
      do {
        session.collect(gather, 100'000);
        gather.keep_rest();
        gather.sent(gather.bytes());
      } while (session.collected() && session.collect(gather, 1) && !gather.empty());
    }
    session.close_all(http2::Error::kCancel);
    CHECK(context.open_calls == 0);
  }
  CHECK(budget.used() == 0);
  return 0;
}
