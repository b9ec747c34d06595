#include "codec/proto_stream.h"

#include "codec/protobuf.h"

#include <algorithm>
#include <utility>

namespace llmd::codec {

bool ProtoStream::feed(std::string_view part) {
  while (!part.empty() && state_ != State::kBad) {
    if (state_ != State::kContent) {
      step(static_cast<uint8_t>(part.front()));
      part.remove_prefix(1);
      continue;
    }
    const auto n = static_cast<size_t>(std::min<uint64_t>(left_, part.size()));
    if (take_ == ProtoSink::Take::kBytes) sink_->bytes(parent_, key_, part.substr(0, n));
    part.remove_prefix(n);
    left_ -= n;
    if (parent_ != 0) parent_left_ -= n;
    if (left_ == 0) end_field();
  }
  return state_ != State::kBad;
}

/// Takes one byte of a varint or of a fixed field.
void ProtoStream::step(uint8_t byte) {
  if (parent_ != 0) --parent_left_;
  const bool varint = state_ != State::kFixed;
  if (varint && shift_ == 63 && byte > 1) {
    state_ = State::kBad;
    return;
  }
  value_ |= uint64_t{varint ? byte & 0x7Fu : byte} << shift_;
  shift_ += varint ? 7 : 8;
  const bool whole = varint ? byte < 0x80 : --left_ == 0;
  if (!whole) {
    if (parent_ != 0 && parent_left_ == 0) state_ = State::kBad;
    return;
  }
  shift_ = 0;
  switch (state_) {
    case State::kKey:
      return end_key();
    case State::kLength:
      return end_length();
    default:
      sink_->number(parent_, key_, value_);
      return end_field();
  }
}

void ProtoStream::end_key() {
  key_ = std::exchange(value_, 0);
  const bool empty = parent_ != 0 && parent_left_ == 0;  // no room for the value
  if (key_ >> 3 == 0 || key_ > UINT32_MAX || empty) {
    state_ = State::kBad;
    return;
  }
  switch (static_cast<WireType>(key_ & 7)) {
    case WireType::kVarint:
      state_ = State::kNumber;
      return;
    case WireType::kFixed64:
    case WireType::kFixed32:
      state_ = State::kFixed;
      left_ = static_cast<WireType>(key_ & 7) == WireType::kFixed64 ? 8 : 4;
      return;
    case WireType::kBytes:
      state_ = State::kLength;
      return;
  }
  state_ = State::kBad;
}

void ProtoStream::end_length() {
  left_ = std::exchange(value_, 0);
  if (parent_ != 0 && left_ > parent_left_) {
    state_ = State::kBad;
    return;
  }
  take_ = sink_->open(parent_, key_);
  if (take_ == ProtoSink::Take::kEnter && parent_ == 0) {
    state_ = State::kKey;
    if (left_ == 0) return;
    parent_ = key_;
    parent_left_ = left_;
    return;
  }
  state_ = State::kContent;
  if (left_ == 0) end_field();
}

void ProtoStream::end_field() {
  state_ = State::kKey;
  value_ = 0;
  if (parent_ != 0 && parent_left_ == 0) parent_ = 0;
}

}  // namespace llmd::codec
