#include "http2/output.h"

#include "base/check.h"

#include <algorithm>

namespace llmd::http2 {

void Gather::copy(std::string_view bytes) {
  if (bytes.empty()) return;
  if (!copied_) copied_ = buffers_.take(bytes.size());
  const size_t at = copied_.size();
  copied_.append(bytes);
  bytes_ += bytes.size();
  if (!runs_.empty() && !runs_.back().data)
    runs_.back().size += bytes.size();
  else
    runs_.push_back({nullptr, at, bytes.size()});
}

void Gather::add(std::string_view bytes) {
  if (bytes.size() < kReferenceBytesMin) return copy(bytes);
  runs_.push_back({bytes.data(), 0, bytes.size()});
  bytes_ += bytes.size();
}

size_t Gather::front(std::span<std::string_view> views) const {
  const size_t n = std::min(views.size(), runs_.size() - first_);
  for (size_t i = 0; i < n; ++i) {
    const Run& run = runs_[first_ + i];
    views[i] = {run.data ? run.data : copied_.data() + run.at, run.size};
  }
  return n;
}

void Gather::sent(size_t n) {
  CHECK(n <= bytes_);
  bytes_ -= n;
  while (n > 0) {
    Run& run = runs_[first_];
    const size_t part = std::min(n, run.size);
    n -= part;
    run.size -= part;
    if (run.data)
      run.data += part;
    else
      run.at += part;
    if (run.size == 0) ++first_;
  }
  if (bytes_ > 0) return;
  runs_.clear();
  first_ = 0;
  copied_.release();
}

void Gather::keep_rest() {
  if (bytes_ == 0) return;
  io::Buffer rest = buffers_.take(bytes_);
  for (size_t i = first_; i < runs_.size(); ++i)
    rest.append({runs_[i].data ? runs_[i].data : copied_.data() + runs_[i].at, runs_[i].size});
  copied_ = std::move(rest);
  runs_.assign(1, {nullptr, 0, bytes_});
  first_ = 0;
}

void OutputQueue::append_own(std::string_view bytes) {
  if (bytes.empty()) return;
  if (!own_) {
    own_ = buffers_.take(bytes.size());
  } else if (own_sent_ == own_.size()) {
    own_.resize_down(0);
    own_sent_ = 0;
  } else if (own_sent_ > own_.size() / 2) {
    own_.consume(own_sent_);
    own_sent_ = 0;
  }
  own_.append(bytes);
  share_.force(own_.capacity());
  if (first_ < runs_.size() && !runs_.back().data)
    runs_.back().size += bytes.size();
  else
    runs_.push_back({nullptr, bytes.size()});
}

void OutputQueue::push(const Piece& piece) {
  if (first_ == runs_.size()) {
    runs_.clear();
    first_ = 0;
  }
  if (piece.stays && !piece.bytes.empty())
    runs_.push_back({piece.bytes.data(), piece.bytes.size()});
  else
    append_own(piece.bytes);
  bytes_ += piece.bytes.size();
}

void OutputQueue::pop(size_t n, Gather& gather) {
  CHECK(n <= bytes_);
  bytes_ -= n;
  while (n > 0) {
    Run& run = runs_[first_];
    const size_t part = std::min(n, run.size);
    n -= part;
    run.size -= part;
    if (run.data) {
      gather.add({run.data, part});
      run.data += part;
    } else {
      gather.add(own_.view().substr(own_sent_, part));
      own_sent_ += part;
    }
    if (run.size == 0) ++first_;
  }
}

}  // namespace llmd::http2
