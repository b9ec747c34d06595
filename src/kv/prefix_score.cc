#include "prefix_score.h"

#include "places.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <tuple>
#include <utility>

namespace llmd::kv {
namespace {

bool is_whole(double x) {
  return std::trunc(x) == x && std::abs(x) < 0x1p52;
}

/// `score` and `blocks` times `weight`, added one by one: the sum's rounding is part of the
/// contract (ten blocks of 0.8 are less than eight).
double added(double score, double weight, uint32_t blocks) {
  if (is_whole(score) && is_whole(weight)) return score + weight * blocks;
  for (; blocks > 0; --blocks) score += weight;
  return score;
}

}  // namespace

double PrefixScore::weight_of(uint32_t tiers) const {
  double best = tiers & kSpeculative ? 1 : -INFINITY;
  for (uint32_t left = tiers & (kSpeculative - 1); left != 0; left &= left - 1)
    best = std::max(best, weights_[static_cast<size_t>(std::countr_zero(left))]);
  return best;
}

/// Of the tiers that held all blocks yet, those in `tiers` do not hold the next.
void PrefixScore::note_end_of_tiers(const Followed& one, uint32_t tiers) const {
  if (tiers & kSpeculative) one.hit->speculative_blocks += blocks_;
  for (uint32_t left = tiers & (kSpeculative - 1); left != 0; left &= left - 1)
    one.hit->blocks_by_tier[static_cast<size_t>(std::countr_zero(left))] += blocks_;
}

double PrefixScore::score_of(uint16_t sum) {
  Sum& at = scratch_.sums[sum];
  at.score = added(at.score, at.weight, blocks_ - std::exchange(at.blocks, blocks_));
  return at.score;
}

/// A sum that has this score now and goes on with this weight, with one more user.
uint16_t PrefixScore::sum_of(double score, double weight) {
  auto& sums = scratch_.sums;
  uint16_t unused = kNobody;
  for (uint16_t i = 0; i < sums.size(); ++i) {
    if (sums[i].users == 0) {
      unused = i;
    } else if (sums[i].weight == weight && score_of(i) == score) {
      ++sums[i].users;
      return i;
    }
  }
  if (unused == kNobody) {
    unused = static_cast<uint16_t>(sums.size());
    sums.emplace_back();
  }
  sums[unused] = {.score = score, .weight = weight, .blocks = blocks_, .users = 1};
  return unused;
}

void PrefixScore::leave(Followed& one) {
  scratch_.index_of[one.slot] = kNobody;
  --left_;
  if (one.here == 0) return;
  note_end_of_tiers(one, one.lasting);
  one.hit->blocks += blocks_;
  one.hit->score += score_of(one.sum);
  --scratch_.sums[one.sum].users;
}

/// From the next block on `slot` holds the chain in the tiers `here`.
void PrefixScore::update(uint32_t slot, uint32_t here) {
  const uint16_t index = scratch_.index_of[slot];
  if (index == kNobody) return;
  Followed& one = scratch_.followed[index];
  if (here == 0) return leave(one);
  const double weight = weight_of(here);
  if (std::exchange(one.here, here) == 0) {
    one.lasting = here;
    one.sum = sum_of(0, weight);
    return;
  }
  note_end_of_tiers(one, one.lasting & ~here);
  one.lasting &= here;
  if (scratch_.sums[one.sum].weight == weight) return;
  const double score = score_of(one.sum);
  --scratch_.sums[one.sum].users;
  one.sum = sum_of(score, weight);
}

void PrefixScore::change(std::span<const uint32_t> holdings) {
  auto was = scratch_.before.cbegin();
  const auto was_end = scratch_.before.cend();
  auto is = holdings.begin();
  while (true) {
    std::tie(was, is) = std::mismatch(was, was_end, is, holdings.end());
    if (was == was_end && is == holdings.end()) break;
    uint32_t slot = UINT32_MAX;
    if (was != was_end) slot = Holding::slot(*was);
    if (is != holdings.end()) slot = std::min(slot, Holding::slot(*is));
    while (is != holdings.begin() && Holding::slot(is[-1]) == slot) --is;
    uint32_t here = 0;
    for (; is != holdings.end() && Holding::slot(*is) == slot; ++is) {
      const Place place = place_of(Holding::place(*is));
      here |= place.speculative ? kSpeculative : 1u << place.tier;
    }
    while (was != was_end && Holding::slot(*was) == slot) ++was;
    update(slot, here);
  }
  if (blocks_ == 0)
    for (Followed& one : scratch_.followed)
      if (one.here == 0 && scratch_.index_of[one.slot] != kNobody) leave(one);
  scratch_.before.assign(holdings.begin(), holdings.end());
}

}  // namespace llmd::kv
