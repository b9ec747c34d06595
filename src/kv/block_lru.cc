#include "block_lru.h"

#include "base/check.h"

namespace llmd::kv {
namespace {

constexpr size_t kFirstCells = 64;

}  // namespace

size_t BlockLru::find_cell(uint64_t block) const {
  const size_t mask = cells_.size() - 1;
  size_t cell = home(block);
  while (cells_[cell] != kNone && nodes_[cells_[cell]].block != block) cell = (cell + 1) & mask;
  return cell;
}

void BlockLru::insert(uint64_t block) {
  if (cells_.size() < 2 * (size_ + 1)) grow();
  uint32_t at = free_;
  if (at == kNone) {
    at = static_cast<uint32_t>(nodes_.size());
    nodes_.emplace_back();
  } else {
    free_ = nodes_[at].older;
  }
  nodes_[at].block = block;
  const size_t cell = find_cell(block);
  CHECK(cells_[cell] == kNone);
  cells_[cell] = at;
  link_newest(at, at);
  ++size_;
}

void BlockLru::erase(uint64_t block) {
  const size_t cell = find_cell(block);
  const uint32_t at = cells_[cell];
  CHECK(at != kNone);
  unlink(at, at);
  close_gap(cell);
  nodes_[at].older = free_;
  free_ = at;
  --size_;
}

void BlockLru::clear() {
  *this = BlockLru();
}

void BlockLru::link_newest(uint32_t newer, uint32_t older) {
  nodes_[newer].newer = kNone;
  nodes_[older].older = newest_;
  if (newest_ != kNone) nodes_[newest_].newer = older;
  newest_ = newer;
  if (oldest_ == kNone) oldest_ = older;
}

void BlockLru::unlink(uint32_t newer, uint32_t older) {
  const uint32_t after = nodes_[newer].newer;
  const uint32_t before = nodes_[older].older;
  (after == kNone ? newest_ : nodes_[after].older) = before;
  (before == kNone ? oldest_ : nodes_[before].newer) = after;
}

/// Moves later cells of the probe run up, so that no run has a hole.
void BlockLru::close_gap(size_t gap) {
  const size_t mask = cells_.size() - 1;
  for (size_t cell = (gap + 1) & mask; cells_[cell] != kNone; cell = (cell + 1) & mask) {
    const size_t from_home = (cell - home(nodes_[cells_[cell]].block)) & mask;
    const size_t from_gap = (cell - gap) & mask;
    if (from_home < from_gap) continue;
    cells_[gap] = cells_[cell];
    gap = cell;
  }
  cells_[gap] = kNone;
}

void BlockLru::grow() {
  cells_.assign(cells_.empty() ? kFirstCells : cells_.size() * 2, kNone);
  for (uint32_t at = newest_; at != kNone; at = nodes_[at].older)
    cells_[find_cell(nodes_[at].block)] = at;
}

}  // namespace llmd::kv
