#include "base/arena.h"

#include <algorithm>

namespace llmd {

Arena::Arena(size_t first_chunk_bytes) : capacity_(first_chunk_bytes) {
  chunks_.push_back({std::make_unique_for_overwrite<char[]>(first_chunk_bytes), first_chunk_bytes});
  next_ = chunks_[0].data.get();
  end_ = next_ + first_chunk_bytes;
}

void* Arena::allocate_slow(size_t bytes, size_t alignment) {
  const size_t size = std::max(chunks_.back().size * 2, bytes + alignment);
  chunks_.push_back({std::make_unique_for_overwrite<char[]>(size), size});
  capacity_ += size;
  next_ = chunks_.back().data.get();
  end_ = next_ + size;
  return allocate(bytes, alignment);
}

void Arena::reset() {
  if (chunks_.size() > 1 && chunks_.back().size <= kRetainedBytesMax)
    chunks_.front() = std::move(chunks_.back());
  chunks_.resize(1);
  capacity_ = chunks_[0].size;
  next_ = chunks_[0].data.get();
  end_ = next_ + capacity_;
}

}  // namespace llmd
