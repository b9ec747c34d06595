#include "http2/output.h"

#include <algorithm>

namespace llmd::http2 {

void Runs::add(Run run) {
  if (empty()) clear();
  if (!empty() && !run.data && !runs_.back().data)
    runs_.back().size += run.size;
  else if (run.size > 0)
    runs_.push_back(run);
  bytes_ += run.size;
}

void Gather::copy(std::string_view bytes) {
  if (bytes.empty()) return;
  if (!copied_) copied_ = buffers_.take(bytes.size());
  copied_.append(bytes);
  runs_.add({nullptr, bytes.size()});
}

void Gather::add(std::string_view bytes) {
  if (bytes.size() < kReferenceBytesMin) return copy(bytes);
  runs_.add({bytes.data(), bytes.size()});
}

size_t Gather::front(std::span<std::string_view> views) const {
  const auto left = runs_.left().first(std::min(views.size(), runs_.left().size()));
  const char* copied = copied_.data() + copied_sent_;
  for (size_t i = 0; i < left.size(); ++i) {
    views[i] = {left[i].data ? left[i].data : copied, left[i].size};
    if (!left[i].data) copied += left[i].size;
  }
  return left.size();
}

void Gather::sent(size_t n) {
  runs_.take(n, [&](Runs::Run run) {
    if (!run.data) copied_sent_ += run.size;
  });
  if (!empty()) return;
  copied_.release();
  copied_sent_ = 0;
}

void Gather::keep_rest() {
  if (empty()) return;
  io::Buffer rest = buffers_.take(bytes());
  runs_.take(bytes(), [&](Runs::Run run) {
    rest.append(run.data ? std::string_view(run.data, run.size)
                         : copied_.view().substr(copied_sent_, run.size));
    if (!run.data) copied_sent_ += run.size;
  });
  runs_.add({nullptr, rest.size()});
  copied_ = std::move(rest);
  copied_sent_ = 0;
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
  runs_.add({nullptr, bytes.size()});
}

void OutputQueue::push(const Piece& piece) {
  if (piece.stays)
    runs_.add({piece.bytes.data(), piece.bytes.size()});
  else
    append_own(piece.bytes);
}

void OutputQueue::pop(size_t n, Gather& gather) {
  runs_.take(n, [&](Runs::Run run) {
    gather.add(run.data ? std::string_view(run.data, run.size)
                        : own_.view().substr(own_sent_, run.size));
    if (!run.data) own_sent_ += run.size;
  });
}

}  // namespace llmd::http2
