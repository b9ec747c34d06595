#pragma once

#include "base/keyed_hash.h"
#include "base/limits.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

/// Which endpoint holds which KV blocks, as the engines' events tell (spec 05 §3 and §4.1).
///
/// Chains of blocks arrive and are looked up together, and the structure is made for that:
///
///   nodes       24 bytes a block: request key, engine key, owners, link. What is stored together
///               lies together in memory, so a look-up walks memory in order and asks a hash table
///               only where it enters a run.
///   owners      32 bits of the node: one holding, or the number of a set of holdings. Equal sets
///               are kept once. Along a chain the number seldom changes, and while it does not, a
///               look-up has nothing to do but to compare keys.
///   links       from a node to that of a block behind it.
///   tables      engine key -> node, for all; request key -> node, for entries: the nodes that no
///               link leads to, which are the first ones of chains and branches. Numbers of nodes
///               with 13 bits of hash, in buckets of a cache line.
///   endpoints   runs of nodes that an endpoint was given: what clearing it walks.
///
/// The index is cut into parts by endpoint, each with a mutex for its writers; a look-up visits the
/// parts of its candidates. With one part a block is kept once for all; more parts let as many
/// threads write at once, and keep what endpoints of several parts hold in each of them.
/// Readers take no lock and never wait. Nodes are looked at through their keys (the key is read
/// again behind the rest), sets and tables are freed when no reader is left (epochs.h).
///
/// Invariants (checked by check()):
///   1. A node in use is an entry, once in the table of request keys, or else it has an engine key
///      and the link of the block before it leads to it. It is in the table of engine keys exactly
///      when it has an engine key. No other node is in either. A request key has one node.
///      Where a request key may be asked for that a link leads to, all nodes are entries: when
///      several engine keys stand for one block, when blocks of engines have another size, when
///      keys come from elsewhere.
///   2. A node in use has owners, or else an engine key: then it is only remembered, for parents,
///   and
///      no more than kRememberedMax such nodes are.
///   3. Every set of owners counts the nodes that have it, and there is no set without one.
///   4. Endpoint counters equal the holdings in the owners of all nodes. The runs of an endpoint
///      contain every node that it holds, and at most twice as many and kRunsSlack more.
///   5. Nodes in use are at most blocks_max; used() counts them; free bits mark the others.
///   6. A bucket counts what went past it (block_table.h).
///   7. What is held by an endpoint was stored under its present generation.
namespace llmd::kv {

class PrecisePart;
class Epochs;

/// How an endpoint holds a block; equal ones are counted, different ones kept beside each other.
struct Place {
  static constexpr size_t kTiersMax = 16;
  static constexpr uint8_t kGroupMax = 125;

  uint8_t tier = 0;              // a number that the caller gives to a medium, below kTiersMax
  bool speculative = false;      // announced by the router, not by the engine
  std::optional<uint8_t> group;  // cache group of a hybrid model, at most kGroupMax

  bool operator==(const Place&) const = default;
};

/// An endpoint of the fleet, by slot and generation: what a former generation held is gone for
/// good.
struct Holder {
  uint32_t slot = 0;
  uint64_t generation = 0;
};

/// Blocks that an endpoint has stored, in the order of their chain. Events of one batch that go on
/// where the one before ended may be joined to one run.
struct BlockRun {
  Holder holder;
  Place place;
  uint64_t parent = 0;                    // request key of the block before the first; 0: none
  uint64_t parent_engine_key = 0;         // by which it is known here; 0: by its request key alone
  std::span<const uint64_t> keys;         // request keys; none of them 0
  std::span<const uint64_t> engine_keys;  // none: no mapping. Spec 05 §3.2 where the sizes differ
  /// Whether a block that the endpoint holds there already counts once more, as a second physical
  /// copy that will be removed on its own; false for reports of what is there anyway.
  bool count_again = true;
};

/// What one endpoint holds of a chain.
struct PrefixHit {
  double score = 0;     // sum of the best tier's weight over `blocks`, added in the chain's order
  uint32_t blocks = 0;  // from the start without a gap, in any tier
  /// From the start without a gap in that tier; speculative ones count apart, whatever their tier.
  std::array<uint32_t, Place::kTiersMax> blocks_by_tier{};
  uint32_t speculative_blocks = 0;

  /// Of several chains.
  PrefixHit& operator+=(const PrefixHit& other) {
    score += other.score;
    blocks += other.blocks;
    speculative_blocks += other.speculative_blocks;
    for (size_t tier = 0; tier < blocks_by_tier.size(); ++tier)
      blocks_by_tier[tier] += other.blocks_by_tier[tier];
    return *this;
  }
  bool operator==(const PrefixHit&) const = default;
};

using TierWeights = std::array<double, Place::kTiersMax>;

struct PreciseIndexOptions {
  size_t blocks_max = 100'000'000;  // request keys, shared out among the parts
  size_t bytes_max = 0;             // of nodes, tables and sets; 0: only blocks_max counts
  size_t parts = 1;                 // threads that write at the same time
};

struct PreciseIndexStats {
  size_t blocks = 0;      // request keys with a holder
  size_t remembered = 0;  // without one, for parents only
  size_t entries = 0;     // of both, in the table of request keys
  size_t holdings = 0;    // of blocks by endpoints in places
  size_t bytes = 0;
  uint64_t evicted = 0;  // blocks dropped for room
};

/// Threading: all methods from any thread. Memory: 41 to 45 bytes for a block with one holder.
class PreciseIndex {
 public:
  explicit PreciseIndex(const PreciseIndexOptions& options = {},
                        const HashSecret& secret = process_secret());
  ~PreciseIndex();
  PreciseIndex(const PreciseIndex&) = delete;
  PreciseIndex& operator=(const PreciseIndex&) = delete;

  /// Adds to hits[i] what holders[i] has of the chain; weights are by tier, speculative blocks
  /// weigh
  /// 1. Does not make blocks recent. Requires: hits.size() >= holders.size().
  /// Cost: no lock, no allocation after a thread's first; ends with the last holder's last block.
  void match(std::span<const uint64_t> chain, std::span<const Holder> holders,
             const TierWeights& weights, std::span<PrefixHit> hits) const;

  /// Makes blocks recent that a request is going to use. Cost: as match().
  void touch(std::span<const uint64_t> chain);

  /// Requires: a block's key is that of its whole chain, so that it only ever stands behind one
  /// other.
  void store(const BlockRun& run);
  /// Adds a place to blocks that are known by their engine keys; others are left out. Returns how
  /// many blocks there were.
  size_t store_known(const Holder& holder, const Place& place,
                     std::span<const uint64_t> engine_keys);

  /// Takes one store of each block in that place back, by the engine's keys; unknown ones have no
  /// effect. An engine key is forgotten when none of its blocks has a holder left.
  /// Removals of one batch should come in one call: each block is fetched while others are removed.
  /// Returns how many blocks the endpoint still holds in that place, since they were stored again.
  size_t remove(const Holder& holder, const Place& place, std::span<const uint64_t> engine_keys);
  /// The same by request keys, of a chain from its first block on; engine keys stay known.
  void remove_keys(const Holder& holder, const Place& place, std::span<const uint64_t> keys);

  /// Forgets what the endpoint holds, in all places; engine keys stay known.
  /// Cost: in proportion to what it holds.
  void clear(const Holder& holder);
  /// The same for good: what comes late for this generation has no effect.
  void purge(const Holder& holder);

  /// The request key that an engine key stands for, the last one if there are several. Parts of
  /// other endpoints are asked if the holder's own does not know.
  std::optional<uint64_t> request_key(const Holder& holder, uint64_t engine_key) const;
  /// From now on the holder's blocks are also found by request keys that its part did not give.
  /// Cost: once, in proportion to the blocks there, and 9 bytes for each.
  void expect_keys_from_elsewhere(const Holder& holder);

  /// Holdings of the endpoint; 0 for another generation than the one it has.
  size_t holdings_of(const Holder& holder) const;
  /// Who holds a block and where, for debug pages: looks at all blocks. In order of slots, then
  /// places.
  struct Held {
    uint32_t slot;
    Place place;
    uint32_t count;
    bool operator==(const Held&) const = default;
  };
  std::vector<Held> holders_of(uint64_t key) const;

  PreciseIndexStats stats() const;

  /// What is wrong with the invariants; "" when they hold. Requires: no writers meanwhile.
  std::string check() const;

 private:
  PrecisePart& part_of(const Holder& holder) const;
  std::vector<uint64_t> keys_of_others(PrecisePart& own, uint64_t engine_key) const;

  std::unique_ptr<Epochs> epochs_;
  std::vector<std::unique_ptr<PrecisePart>> parts_;
};

}  // namespace llmd::kv
