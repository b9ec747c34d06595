#pragma once

#include "http/http2_client.h"
#include "http/server.h"
#include "io/buffer_pool.h"
#include "io/byte_budget.h"

#include <cstdint>
#include <string_view>

namespace llmd::frontend {

/// The body of one gRPC request on its way to a server. Its first message is kept whole until the
/// request ends, since it decides where the request goes and may have to be sent again; what
/// follows is passed on as it comes, and no faster than the server takes it. Threading: one loop.
class GrpcRelay {
 public:
  GrpcRelay(http::Http2Client& client, http::CallHandler& handler, io::ByteBudget& budget)
      : deadline(client.loop()),
        call_(client, handler),
        buffers_(client.loop().buffers()),
        share_(budget) {}

  enum class Next : uint8_t {
    kMore,    // nothing has changed
    kDecide,  // the first message is there: first()
    kTooLarge,
    kNoMemory,
  };
  /// More of the body; `last` with nothing: it is complete.
  Next take(http::Exchange& exchange, std::string_view data, bool last, uint64_t bytes_max);
  /// The first message with its frame; all there is of a body that ends before.
  std::string_view first() const { return first_.view(); }

  /// Sends the request, or what there is of it. False: no more can be taken before
  /// on_request_drained().
  bool start(const http::Destination& destination, http::Http2Request request);
  /// Whether a failed try could be made again: nothing that is not kept was sent.
  bool can_start_again() const { return !passed_on_; }

  io::Timer deadline;  // of the request; its owner's

  void abort() { call_.abort(); }
  void pause() { call_.pause(); }
  void resume() { call_.resume(); }

 private:
  http::Http2Call call_;
  io::BufferPool& buffers_;
  io::BudgetShare share_;
  io::Buffer first_;
  io::Buffer rest_;     // behind the first message, until there is a call
  bool whole_ = false;  // first_ is
  bool ended_ = false;  // the body is
  bool passed_on_ = false;
};

}  // namespace llmd::frontend
