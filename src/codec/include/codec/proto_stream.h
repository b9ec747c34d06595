#pragma once

#include <cstdint>
#include <string_view>

namespace llmd::codec {

/// Hears the fields of a message. `parent` is the key of the nested message that a field is in, 0
/// at the top; keys are those of codec/protobuf.h.
class ProtoSink {
 public:
  enum class Take : uint8_t {
    kSkip,
    kEnter,  // it is a message whose fields count; only at the top
    kBytes,  // its bytes count
  };
  /// A length-delimited field begins.
  virtual Take open(uint64_t parent, uint64_t key) = 0;
  virtual void number(uint64_t parent, uint64_t key, uint64_t value) = 0;
  /// The next bytes of a field that was opened with kBytes.
  virtual void bytes(uint64_t /*parent*/, uint64_t /*key*/, std::string_view /*part*/) {}

 protected:
  ~ProtoSink() = default;
};

/// Walks a protobuf message that comes in pieces, cut anywhere, and keeps nothing of it. As strict
/// as ProtoReader. Trivially destructible. Cost: bytes that do not count are stepped over.
class ProtoStream {
 public:
  explicit ProtoStream(ProtoSink& sink) : sink_(&sink) {}

  /// Begins another message.
  void begin() { *this = ProtoStream(*sink_); }
  /// False from the first malformed byte on.
  bool feed(std::string_view part);
  /// Whether the message may end here.
  bool at_boundary() const { return state_ == State::kKey && shift_ == 0 && parent_ == 0; }

 private:
  enum class State : uint8_t { kKey, kNumber, kLength, kFixed, kContent, kBad };

  void step(uint8_t byte);
  void end_key();
  void end_length();
  void end_field();

  ProtoSink* sink_;
  State state_ = State::kKey;
  ProtoSink::Take take_ = ProtoSink::Take::kSkip;
  uint32_t shift_ = 0;
  uint64_t value_ = 0;
  uint64_t key_ = 0;
  uint64_t parent_ = 0;
  uint64_t parent_left_ = 0;  // bytes
  uint64_t left_ = 0;         // bytes of the content, or of a fixed field
};

}  // namespace llmd::codec
