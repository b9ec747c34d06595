#include "grpc_relay.h"

#include "codec/grpc_frame.h"

namespace llmd::frontend {
namespace {

/// The size of the message at the front of `bytes` with its frame; more than there is while that is
/// not known.
size_t framed_size(std::string_view bytes) {
  constexpr size_t kPrefix = codec::kGrpcPrefixBytes;
  return bytes.size() < kPrefix ? kPrefix : kPrefix + codec::grpc_message_size(bytes);
}

}  // namespace

GrpcRelay::Next GrpcRelay::take(http::Exchange& exchange, std::string_view data, bool last,
                                uint64_t bytes_max) {
  ended_ |= last;
  if (call_.active() && whole_) {
    passed_on_ |= !data.empty();
    if (!call_.write(data, last)) exchange.pause_body();
    return Next::kMore;
  }
  io::Buffer& into = whole_ ? rest_ : first_;
  if (!data.empty()) {
    if (!into) into = buffers_.take(data.size());
    into.append(data);
    if (first_.size() > bytes_max) return Next::kTooLarge;
    if (!share_.resize(first_.capacity() + rest_.capacity())) return Next::kNoMemory;
  }
  const size_t size = framed_size(first_.view());
  if (whole_ || (!last && first_.size() < size)) return Next::kMore;
  whole_ = true;
  if (first_.size() > size) {
    rest_ = buffers_.take(first_.size() - size);
    rest_.append(first_.view().substr(size));
    first_.resize_down(size);
  }
  if (!ended_) exchange.pause_body();  // until it is known where to
  return Next::kDecide;
}

bool GrpcRelay::start(const http::Destination& destination, http::Http2Request request) {
  request.last = !whole_;
  call_.start(destination, request);
  if (request.last) return true;
  if (rest_.size() == 0) return call_.write(first_.view(), ended_);
  passed_on_ = true;
  call_.write(first_.view(), false);
  const bool room = call_.write(rest_.view(), ended_);
  rest_.release();
  return room;
}

}  // namespace llmd::frontend
