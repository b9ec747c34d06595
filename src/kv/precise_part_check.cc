#include "precise_part.h"

#include <boost/unordered/unordered_flat_set.hpp>

namespace llmd::kv {

std::string PrecisePart::check() const {
  mutex_.assume_held();  // no writers
  boost::unordered_flat_map<uint32_t, size_t> sets;
  std::vector<size_t> holdings(limits::kEndpointsMax);
  if (std::string wrong = check_nodes(sets, holdings); !wrong.empty()) return wrong;
  if (std::string wrong = owners_.check(sets); !wrong.empty()) return wrong;
  return check_endpoints(holdings);
}

/// Nodes against tables, counters and free bits. Counts nodes by sets and holdings by slots.
std::string PrecisePart::check_nodes(boost::unordered_flat_map<uint32_t, size_t>& sets,
                                     std::vector<size_t>& holdings) const {
  mutex_.assume_held();
  std::vector<uint8_t> in_tables(nodes_.end());
  std::string wrong =
      by_key_.check([&](uint32_t node) { in_tables[node] |= 1; },
                    [&](uint32_t node) { return hash_of(nodes_[node].key.load()); });
  if (!wrong.empty()) return wrong;
  wrong = by_engine_key_.check([&](uint32_t node) { in_tables[node] |= 2; },
                               [&](uint32_t node) { return hash_of(nodes_[node].engine_key); });
  if (!wrong.empty()) return wrong;
  size_t used = 0;
  size_t unowned = 0;
  size_t with_engine_key = 0;
  size_t entries = 0;
  std::vector<bool> linked(nodes_.end());
  boost::unordered_flat_set<uint64_t> keys;
  for (uint32_t number = 1; number < nodes_.end(); ++number)
    if (nodes_[number].key.load() != 0) linked[nodes_[number].successor()] = true;
  for (uint32_t number = 1; number < nodes_.end(); ++number) {
    const BlockNode& node = nodes_[number];
    const uint64_t key = node.key.load();
    if ((key == 0) != nodes_.is_free(number)) return "a free bit is wrong";
    const int expected = (node.is_entry() ? 1 : 0) + (node.engine_key != 0 ? 2 : 0);
    if (in_tables[number] != expected) return "a node is in the wrong tables";
    if (key == 0) continue;
    ++used;
    with_engine_key += node.engine_key != 0;
    entries += node.is_entry();
    if (!keys.insert(key).second) return "a key has two nodes";
    if (!node.is_entry() && (all_entered_ || node.engine_key == 0 || !linked[number]))
      return "a node is not found by its key";
    const uint32_t owners = node.owners.load();
    if (owners == 0) {
      ++unowned;
      if (node.engine_key == 0) return "a node has neither owner nor engine key";
      continue;
    }
    ++sets[owners];
    for (const uint32_t holding : owners_.read(owners)) {
      if (Holding::count(holding) == 0) return "a holding counts nothing";
      ++holdings[Holding::slot(holding)];
    }
  }
  if (used != nodes_.used() || entries != by_key_.size()) return "used nodes are miscounted";
  if (!all_entered_ && (!aliases_.empty() || !spans_.empty()))
    return "a block that another engine key stands for may not be found";
  if (with_engine_key != by_engine_key_.size()) return "engine keys are miscounted";
  if (unowned != unowned_ || unowned > remembered_.size() || unowned > kRememberedMax)
    return "nodes without owner are miscounted";
  if (used > blocks_max_) return "more blocks than allowed";
  return "";
}

std::string PrecisePart::check_endpoints(const std::vector<size_t>& holdings) const {
  mutex_.assume_held();
  size_t total = 0;
  size_t run_bytes = 0;
  for (uint32_t slot = 0; slot < endpoints_.size(); ++slot) {
    const Endpoint* at = endpoints_[slot].load();
    if (at == nullptr) {
      if (holdings[slot] > 0) return "an endpoint that is not known holds blocks";
      continue;
    }
    if (at->holdings != holdings[slot]) return "holdings of an endpoint are miscounted";
    if (at->generation.load() <= at->purged && at->holdings > 0)
      return "a purged endpoint holds blocks";
    std::vector<bool> in_runs(nodes_.end());
    size_t run_nodes = 0;
    for (const Run& run : at->runs) {
      run_nodes += run.count;
      for (uint32_t i = 0; i < run.count; ++i) in_runs[run.first + i] = true;
    }
    if (run_nodes != at->run_nodes || run_nodes > 2 * at->holdings + kRunsSlack)
      return "runs of an endpoint are too many or miscounted";
    for (uint32_t number = 1; at->holdings > 0 && number < nodes_.end(); ++number) {
      const uint32_t owners = nodes_[number].owners.load();
      if (owners != 0 && OwnerSets::holds(owners_.read(owners), slot) && !in_runs[number])
        return "a node of an endpoint is in none of its runs";
    }
    total += at->holdings;
    run_bytes += at->runs.capacity() * sizeof(Run);
  }
  if (total != holdings_) return "holdings are miscounted";
  if (run_bytes != run_bytes_) return "bytes of runs are miscounted";
  return "";
}

}  // namespace llmd::kv
