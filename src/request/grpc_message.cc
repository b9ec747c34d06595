#include "grpc_message.h"

#include "base/arena_list.h"
#include "base/check.h"
#include "codec/grpc_frame.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace llmd::request {
namespace {

constexpr int kGzipWindow = 15 + 16;  // the largest window, behind a gzip header
constexpr size_t kInflateStep = 8192;

void* take(void* arena, uInt items, uInt size) {
  return static_cast<Arena*>(arena)->allocate(size_t{items} * size, alignof(std::max_align_t));
}
void give_back(void*, void*) {}

std::optional<std::string_view> inflated(std::string_view compressed, Arena& arena) {
  ArenaInflate& gzip = *arena.make<ArenaInflate>(arena);
  ArenaList<char> out(arena);
  std::array<char, kInflateStep> step;
  auto result = ArenaInflate::Result::kMore;
  while (result == ArenaInflate::Result::kMore) {
    const size_t before = compressed.size();
    const size_t n = gzip.inflate(compressed, step, result);
    if (out.size() + n > kInflatedBytesMax) return std::nullopt;
    out.append({step.data(), n});
    if (n == 0 && compressed.size() == before) break;  // cut off
  }
  if (result != ArenaInflate::Result::kEnd || !compressed.empty()) return std::nullopt;
  return std::string_view(out.view().data(), out.size());
}

}  // namespace

ArenaInflate::ArenaInflate(Arena& arena) {
  state_.zalloc = take;
  state_.zfree = give_back;
  state_.opaque = &arena;
  CHECK(inflateInit2(&state_, kGzipWindow) == Z_OK);
}

void ArenaInflate::restart() {
  CHECK(inflateReset(&state_) == Z_OK);
}

size_t ArenaInflate::inflate(std::string_view& input, std::span<char> out, Result& result) {
  state_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(input.data()));
  state_.avail_in = static_cast<uInt>(std::min<size_t>(input.size(), UINT32_MAX));
  state_.next_out = reinterpret_cast<Bytef*>(out.data());
  state_.avail_out = static_cast<uInt>(out.size());
  const uInt given = state_.avail_in;
  const int status = ::inflate(&state_, Z_NO_FLUSH);
  input.remove_prefix(given - state_.avail_in);
  result = status == Z_STREAM_END                    ? Result::kEnd
           : status == Z_OK || status == Z_BUF_ERROR ? Result::kMore
                                                     : Result::kBad;
  return out.size() - state_.avail_out;
}

std::optional<std::string_view> grpc_message(std::string_view body, Arena& arena) {
  if (body.size() < codec::kGrpcPrefixBytes ||
      codec::grpc_message_size(body) != body.size() - codec::kGrpcPrefixBytes)
    return std::nullopt;
  const auto message = body.substr(codec::kGrpcPrefixBytes);
  if (body[0] == 0) return message;
  if (body[0] != 1) return std::nullopt;
  return inflated(message, arena);
}

void GrpcUsageScan::feed(std::string_view chunk) {
  while (!chunk.empty()) {
    if (prefix_size_ < codec::kGrpcPrefixBytes) {
      const size_t n =
          chunk.copy(prefix_.data() + prefix_size_, codec::kGrpcPrefixBytes - prefix_size_);
      prefix_size_ += n;
      chunk.remove_prefix(n);
      if (prefix_size_ < codec::kGrpcPrefixBytes) return;
      begin_message();
    }
    const auto n = static_cast<size_t>(std::min<uint64_t>(left_, chunk.size()));
    feed_message(chunk.substr(0, n));
    chunk.remove_prefix(n);
    left_ -= n;
    if (left_ > 0) return;
    prefix_size_ = 0;
    ++events_;
    if (good_ && walk_.at_boundary() && (!compressed_ || inflated_)) end_message();
  }
}

void GrpcUsageScan::begin_message() {
  left_ = codec::grpc_message_size({prefix_.data(), codec::kGrpcPrefixBytes});
  compressed_ = prefix_[0] == 1;
  good_ = compressed_ || prefix_[0] == 0;
  inflated_ = false;
  walk_.begin();
  start_message();
  if (!compressed_) return;
  if (inflate_)
    inflate_->restart();
  else
    inflate_ = arena_.make<ArenaInflate>(arena_);
}

void GrpcUsageScan::feed_message(std::string_view part) {
  if (!good_ || part.empty()) return;
  if (!compressed_) {
    good_ = walk_.feed(part);
    return;
  }
  if (inflated_) {  // bytes behind the gzip stream
    good_ = false;
    return;
  }
  std::array<char, kInflateStep> step;
  while (good_) {
    auto result = ArenaInflate::Result::kMore;
    const size_t n = inflate_->inflate(part, step, result);
    good_ = walk_.feed({step.data(), n}) && result != ArenaInflate::Result::kBad;
    if (result == ArenaInflate::Result::kEnd) {
      inflated_ = true;
      good_ = good_ && part.empty();
      return;
    }
    if (part.empty() && n < step.size()) return;
  }
}

}  // namespace llmd::request
