#pragma once

#include "fleet/address.h"
#include "kv_shared/entry.h"
#include "metric/registry.h"
#include "redis/client.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// The index of KV blocks that several routers share through Redis or Valkey.
namespace llmd::kv_shared {

struct SharedIndexOptions {
  redis::Address address;
  /// What a block in a tier counts; speculative ones count 1. Called on the index's thread.
  std::function<double(std::string_view tier)> weight;
  /// Bytes of changes that wait for the server. When more come, all that wait are dropped, and the
  /// pods that they were of are cleared as soon as the server is there: the index says too little
  /// rather than what is not so.
  size_t waiting_bytes_max = size_t{64} << 20;
};

/// What is asked: chains of request keys, and who is of interest.
struct Question {
  std::vector<std::vector<uint64_t>> chains;
  std::vector<std::string> pods;
};

/// What one pod has of the chains, summed up.
struct Hit {
  double score = 0;     // of the best tier's weight, along each chain from its start without a gap
  uint32_t blocks = 0;  // in any tier
  /// The same in one tier; "" of speculative ones.
  struct Tier {
    std::string name;
    uint32_t blocks = 0;
    bool operator==(const Tier&) const = default;
  };
  std::vector<Tier> tiers;  // those with blocks, in no order

  bool operator==(const Hit&) const = default;
};

/// A client of the shared index, with a thread and two connections of its own: changes go one way,
/// look-ups the other, so neither waits for the other. Changes take effect in the order in which
/// they are made and are kept while the server is away; look-ups then are not answered.
/// Threading: any. Metrics: llmd_kv_shared_index_*.
class SharedIndex {
 public:
  static constexpr size_t kQuestionsMax = 1024;  // under way or not taken yet
  /// What request_key() waits at most.
  static constexpr Nanos kKeyTimeout = std::chrono::milliseconds(200);

  /// `cell`: of the thread, as index of its loop. Requires: metrics outlives this.
  SharedIndex(SharedIndexOptions options, metric::Registry& metrics, size_t cell,
              fleet::Resolver resolver = fleet::system_resolver());
  /// Changes that still wait are dropped. Questions are not answered any more.
  ~SharedIndex();

  /// Begins to connect, once.
  void open();

  void store(const Entry& entry, std::span<const uint64_t> keys,
             std::span<const uint64_t> engine_keys);
  void remove(const Entry& entry, std::span<const uint64_t> engine_keys);
  void remove_keys(const Entry& entry, std::span<const uint64_t> keys);
  /// Removes all entries of the pod. Cost: the server goes through the whole index, in steps of
  /// about a millisecond; later changes wait for the end.
  void clear(std::string_view pod);

  /// What the engine key stands for. Waits for the server: not for loops. Nothing when the server
  /// is away or does not know.
  std::optional<uint64_t> request_key(uint64_t engine_key);

  /// Whether the server is there. If not, this counts as a look-up that was skipped.
  bool available() const;
  /// Begins a look-up; calls `resume` at its end. Errors when too many are under way.
  Result<uint64_t> ask(Question question, std::function<void()> resume);
  /// The answer to the question with this ticket, by pod; once.
  Result<std::vector<Hit>> take(uint64_t ticket);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace llmd::kv_shared
