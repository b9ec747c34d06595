#include "prefix_score.h"

#include "places.h"

#include <bit>

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
void PrefixScore::note_end_of_tiers(Active& active, uint32_t tiers) {
  if (active.blocks == 0) return;
  if (tiers & kSpeculative) active.hit->speculative_blocks += active.blocks;
  for (uint32_t left = tiers & (kSpeculative - 1); left != 0; left &= left - 1)
    active.hit->blocks_by_tier[static_cast<size_t>(std::countr_zero(left))] += active.blocks;
}

void PrefixScore::change(std::span<const uint32_t> holdings) {
  auto& active = scratch_.active;
  for (const uint32_t holding : holdings) {
    const uint16_t index = scratch_.index_of[Holding::slot(holding)];
    if (index == kNobody) continue;
    const Place place = place_of(Holding::place(holding));
    active[index].here |= place.speculative ? kSpeculative : 1u << place.tier;
  }
  size_t kept = 0;
  for (Active& one : active) {
    const uint32_t here = std::exchange(one.here, 0);
    note_end_of_tiers(one, one.lasting & ~here & (2 * kSpeculative - 1));
    if (here == 0) {
      one.hit->blocks += one.blocks;
      one.hit->score += one.score;
      scratch_.index_of[one.slot] = kNobody;
      continue;
    }
    one.lasting &= here;
    one.weight = weight_of(here);
    scratch_.index_of[one.slot] = static_cast<uint16_t>(kept);
    active[kept++] = one;
  }
  active.resize(kept);
}

void PrefixScore::count(uint32_t blocks) {
  double from = 0;
  double weight = 0;
  double to = 0;  // from, and so many times weight
  for (Active& one : scratch_.active) {
    one.blocks += blocks;
    if (one.score != from || one.weight != weight) {
      from = one.score;
      weight = one.weight;
      to = added(from, weight, blocks);
    }
    one.score = to;
  }
}

}  // namespace llmd::kv
