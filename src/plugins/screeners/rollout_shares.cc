#include "rollout_shares.h"

#include <algorithm>
#include <numeric>

namespace llmd::plugins {

std::vector<std::pair<std::string_view, double>> rollout_shares(const RolloutCounts& counts,
                                                                size_t roles, RolloutMode mode) {
  std::vector<std::pair<std::string_view, double>> shares;
  std::vector<int64_t> totals(roles);
  for (const auto& [revision, by_role] : counts) {
    if (std::ranges::any_of(by_role, [](int64_t n) { return n == 0; })) continue;
    shares.emplace_back(revision, 0);
    for (size_t r = 0; r < roles; ++r) totals[r] += by_role[r];
  }
  const auto largest = static_cast<size_t>(std::ranges::max_element(totals) -
                                           totals.begin());  // the first of equals
  double sum = 0;
  for (auto& [revision, share] : shares) {
    const auto& by_role = counts.at(revision);
    share = static_cast<double>(mode == RolloutMode::kMaxRole
                                    ? by_role[largest]
                                    : std::accumulate(by_role.begin(), by_role.end(), int64_t{0}));
    sum += share;
  }
  for (auto& [revision, share] : shares) share /= sum;
  return shares;
}

std::string_view pick_revision(std::span<const std::pair<std::string_view, double>> shares,
                               double draw) {
  for (const auto& [revision, share] : shares.first(shares.size() - 1)) {
    if (draw < share) return revision;
    draw -= share;
  }
  return shares.back().first;
}

}  // namespace llmd::plugins
