#include "burst_assignment.h"

#include <algorithm>
#include <map>

namespace llmd::plugins {
namespace {

using Chain = std::vector<uint64_t>;

size_t common_blocks(const Chain& a, const Chain& b) {
  return static_cast<size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

/// Requests with the same prompt.
struct Unit {
  const Chain* prompt;
  std::vector<size_t> members;
};

class Assignment {
 public:
  Assignment(std::span<const Chain> prompts, std::span<const BurstReplica> replicas,
             const BurstRules& rules)
      : prompts_(prompts), replicas_(replicas), rules_(rules), placed_(replicas.size()) {}

  std::vector<std::optional<size_t>> run() {
    std::vector<std::optional<size_t>> result(prompts_.size());
    const auto all = units();
    int64_t total = 0;
    for (const auto& unit : all)
      total += rules_.balance_by_tokens ? blocks(unit) : static_cast<int64_t>(unit.members.size());
    const auto count = static_cast<int64_t>(replicas_.size());
    share_ = (total + count - 1) / count;
    for (const auto& unit : all) place(unit, result);
    return result;
  }

 private:
  struct Placed {
    int64_t load = 0;
    std::vector<const Chain*> prompts;
  };

  static int64_t blocks(const Unit& unit) { return static_cast<int64_t>(unit.prompt->size()); }

  /// Prompts of several requests, then single ones that share their beginning with another; of
  /// each the longest first.
  std::vector<Unit> units() const {
    std::map<Chain, size_t> index;
    std::vector<Unit> groups;
    for (size_t i = 0; i < prompts_.size(); ++i) {
      if (prompts_[i].empty()) continue;
      const auto [at, fresh] = index.try_emplace(prompts_[i], groups.size());
      if (fresh) groups.push_back({&prompts_[i], {}});
      groups[at->second].members.push_back(i);
    }
    const auto longer = [](const Unit& a, const Unit& b) { return blocks(a) > blocks(b); };
    std::vector<Unit> several, single;
    for (auto& group : groups) {
      if (group.members.size() >= 2)
        several.push_back(std::move(group));
      else if (shares_beginning(group))
        single.push_back(std::move(group));
    }
    std::ranges::stable_sort(several, longer);
    std::ranges::stable_sort(single, longer);
    several.insert(several.end(), single.begin(), single.end());
    return several;
  }

  bool shares_beginning(const Unit& unit) const {
    const size_t least = rules_.colocate_blocks_min;
    return least > 0 && std::ranges::any_of(prompts_, [&](const Chain& other) {
             return &other != unit.prompt && common_blocks(other, *unit.prompt) >= least;
           });
  }

  bool less(size_t a, size_t b) const {
    if (placed_[a].load != placed_[b].load) return placed_[a].load < placed_[b].load;
    if (replicas_[a].running != replicas_[b].running)
      return replicas_[a].running < replicas_[b].running;
    return replicas_[a].id < replicas_[b].id;
  }

  /// How much of the prompt the replica will have computed for others.
  size_t held(size_t replica, const Chain& prompt) const {
    size_t most = 0;
    for (const auto* other : placed_[replica].prompts)
      most = std::max(most, common_blocks(prompt, *other));
    return most;
  }

  std::optional<size_t> holder(const Chain& prompt) const {
    if (rules_.colocate_blocks_min == 0) return std::nullopt;
    std::optional<size_t> best;
    size_t most = 0;
    for (size_t r = 0; r < replicas_.size(); ++r) {
      const size_t blocks_held = held(r, prompt);
      if (blocks_held < rules_.colocate_blocks_min || placed_[r].load >= share_) continue;
      if (best && (blocks_held < most || (blocks_held == most && !less(r, *best)))) continue;
      best = r;
      most = blocks_held;
    }
    return best;
  }

  /// The least loaded of the replicas that may take more of the unit, or of all. `taken` is how
  /// many requests of the unit each has.
  size_t least_loaded(std::span<const int64_t> taken) const {
    std::optional<size_t> with_room;
    size_t any = 0;
    for (size_t r = 0; r < replicas_.size(); ++r) {
      const bool room = rules_.per_replica_max < 0 || taken[r] < rules_.per_replica_max;
      if (less(r, any)) any = r;
      if (room && (!with_room || less(r, *with_room))) with_room = r;
    }
    return with_room.value_or(any);
  }

  void place(const Unit& unit, std::vector<std::optional<size_t>>& result) {
    std::vector<int64_t> taken(replicas_.size());
    for (size_t next = 0; next < unit.members.size();) {
      const auto near = next == 0 ? holder(*unit.prompt) : std::nullopt;
      const size_t replica = near ? *near : least_loaded(taken);
      auto& placed = placed_[replica];
      size_t run = unit.members.size() - next;
      if (rules_.per_replica_max >= 0)
        run = std::min(run, static_cast<size_t>(
                                std::max<int64_t>(1, rules_.per_replica_max - taken[replica])));
      placed.load += rules_.balance_by_tokens
                         ? blocks(unit) - static_cast<int64_t>(held(replica, *unit.prompt))
                         : static_cast<int64_t>(run);
      taken[replica] += static_cast<int64_t>(run);
      placed.prompts.push_back(unit.prompt);
      for (; run > 0; --run) result[unit.members[next++]] = replica;
    }
  }

  const std::span<const Chain> prompts_;
  const std::span<const BurstReplica> replicas_;
  const BurstRules rules_;
  std::vector<Placed> placed_;  // by replica
  int64_t share_ = 0;
};

}  // namespace

std::vector<std::optional<size_t>> assign_burst(std::span<const std::vector<uint64_t>> prompts,
                                                std::span<const BurstReplica> replicas,
                                                const BurstRules& rules) {
  if (replicas.empty()) return std::vector<std::optional<size_t>>(prompts.size());
  return Assignment(prompts, replicas, rules).run();
}

}  // namespace llmd::plugins
