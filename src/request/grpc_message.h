#pragma once

#include "base/arena.h"
#include "codec/proto_stream.h"
#include "request/parser.h"

#include <array>
#include <optional>
#include <span>
#include <string_view>
#include <zlib.h>

namespace llmd::request {

/// gzip, one stream after the other, with its state in an arena. Does not move. Trivially
/// destructible.
class ArenaInflate {
 public:
  enum class Result : uint8_t { kMore, kEnd, kBad };

  explicit ArenaInflate(Arena& arena);
  ArenaInflate(const ArenaInflate&) = delete;
  ArenaInflate& operator=(const ArenaInflate&) = delete;

  /// Begins another stream.
  void restart();
  /// Inflates from the front of `input` to `out`; returns how many bytes were written. kMore with
  /// input left: `out` is full.
  size_t inflate(std::string_view& input, std::span<char> out, Result& result);

 private:
  z_stream state_{};
};

/// Content of a compressed message; more is refused, however little was sent for it.
inline constexpr size_t kInflatedBytesMax = 4u << 20;

/// The message that a gRPC request body consists of: what follows its five bytes of framing, which
/// must be all of it. A compressed one (gzip) is inflated into `arena`. Nothing when the body is
/// anything else.
std::optional<std::string_view> grpc_message(std::string_view body, Arena& arena);

/// Usage in an answer of gRPC messages, which are walked as they come and not kept. A message that
/// is malformed counts for nothing and the next is read; compressed ones may be gzip.
class GrpcUsageScan : public UsageScan, protected codec::ProtoSink {
 public:
  void feed(std::string_view chunk) final;
  void finish() override {}

 protected:
  explicit GrpcUsageScan(Arena& arena) : arena_(arena), walk_(*this) {}
  ~GrpcUsageScan() = default;

  virtual void start_message() {}
  /// The message has come whole and is well-formed.
  virtual void end_message() = 0;

 private:
  void begin_message();
  void feed_message(std::string_view part);

  Arena& arena_;
  codec::ProtoStream walk_;
  ArenaInflate* inflate_ = nullptr;
  std::array<char, 5> prefix_{};
  size_t prefix_size_ = 0;
  uint64_t left_ = 0;  // bytes of the message
  bool compressed_ = false;
  bool good_ = true;
  bool inflated_ = false;  // the end of the gzip stream has come
};

}  // namespace llmd::request
