#pragma once

#include "base/clock.h"
#include "sim/counters.h"
#include "sim/draws.h"
#include "sim/latency_model.h"
#include "sim/prefix_cache.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace llmd::sim {

class Engine;
struct Sequence;

/// Who submitted a sequence.
class SequenceOwner {
 public:
  virtual ~SequenceOwner() = default;
  /// A token is out (sequence.emitted counts it) or the sequence has ended (sequence.ended()). The
  /// engine does not touch the sequence afterwards, so the owner may destroy it once it has ended,
  /// submit others and abort any.
  virtual void on_progress(Sequence& sequence) = 0;
};

/// One sub-request: one prompt, one answer. Owned by the submitter, which keeps it in place until
/// it has ended.
struct Sequence {
  // Set before submit().
  SequenceOwner* owner = nullptr;
  std::span<const uint32_t> prompt;  // token ids; must outlive the sequence
  uint32_t output_tokens = 0;        // how many tokens it will generate
  FinishReason finish = FinishReason::kStop;
  std::optional<uint32_t> max_tokens;  // as requested; for metrics
  uint32_t choices = 1;                // n of its request; for metrics
  int32_t adapter = -1;                // index of a LoRA adapter, or -1
  std::string_view cache_salt;         // prompts of other salts share no blocks; as prompt
  bool remote_prefill = false;         // the prompt's KV cache comes from another server
  bool each_token = true;              // false: on_progress only at the end
  bool force_cache_threshold = false;
  double cache_hit_threshold =
      0;  // ends at once with kCacheThreshold below this hit rate; 0: never
  Draws draws;

  // Set by the engine.
  enum class State : uint8_t { kIdle, kWaiting, kPrefill, kDecode, kDone, kNoCapacity };
  State state = State::kIdle;
  uint32_t emitted = 0;
  uint32_t cached_tokens = 0;
  TimePoint arrived{}, started{}, first_token{};

  bool ended() const { return state == State::kDone || state == State::kNoCapacity; }

 private:
  friend class Engine;
  TimePoint due_{};
  uint64_t order_ = 0;
  size_t heap_at_ = SIZE_MAX;
  Sequence *prev_ = nullptr, *next_ = nullptr;
  bool holds_blocks_ = false;
  std::vector<uint64_t> keys_;
};

struct EngineConfig {
  std::string model;  // separates prefix-cache keys
  uint32_t max_num_seqs = 5;
  uint32_t max_waiting = 1000;
  uint32_t max_model_len = 1024;
  uint32_t max_loras = 1;
  bool prefix_cache = false;
  uint32_t kv_cache_blocks = 1024;
  uint32_t block_tokens = 16;
  LatencyConfig latency;
};

struct Adapter {
  std::string name;
  std::string path;
  uint32_t running = 0;
  uint32_t waiting = 0;
  bool resident = false;
  bool loaded = true;  // false once unloaded by name
};

/// One simulated model server without its sockets: who runs, who waits, when the next token is due.
/// It is a pure function of its inputs and of the times passed in: no clock, no timers, no I/O, so
/// the same code runs on real sockets and in virtual time. Sequences start first in, first out,
/// except that one whose adapter cannot be resident lets others pass.
///
/// Time is model time. Deadlines follow from deadlines, not from when advance() was called, so
/// lateness never adds up. Threading: one thread. Cost: O(log running) a token; starting is O(1)
/// without adapters.
class Engine {
 public:
  explicit Engine(const EngineConfig& config, CacheListener* listener = nullptr);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Whether `n` sequences may be submitted now: a free slot or a place in the queue for each.
  bool accepts(size_t n) const;
  /// Counts a request that was refused because accepts() said no.
  void count_rejected();

  /// Queues or starts the sequence; never calls its owner. Requires: accepts(1), state kIdle.
  void submit(Sequence& sequence, TimePoint now);
  /// Ends the sequence wherever it is, frees what it holds, counts it as aborted. Does not call its
  /// owner.
  void abort(Sequence& sequence, TimePoint now);

  /// Emits everything due up to `now`, in order of time.
  void advance(TimePoint now);
  /// When advance() has something to do next.
  std::optional<TimePoint> next_due() const;

  bool reset_prefix_cache();

  /// The index of the loaded adapter `name`, or -1.
  int32_t find_adapter(std::string_view name) const;
  void load_adapter(std::string name, std::string path);
  bool unload_adapter(std::string_view name);
  std::span<const Adapter> adapters() const { return adapters_; }

  /// Takes effect at each sequence's next delay.
  void set_latency(const LatencyConfig& latency) { config_.latency = latency; }
  const EngineConfig& config() const { return config_; }
  const Counters& counters() const { return counters_; }
  double kv_cache_usage() const { return cache_ ? cache_->usage() : 0; }
  /// Changes whenever counters do.
  uint64_t revision() const { return revision_; }

 private:
  void start_waiting(TimePoint now);
  Sequence* pick_waiting();
  void start(Sequence& s, TimePoint now);
  void finish(Sequence& s, TimePoint at);
  void leave(Sequence& s, TimePoint at);
  void run_top(TimePoint now);
  void emit(Sequence& s);
  bool make_resident(int32_t adapter);
  void unlink_waiting(Sequence& s);

  static bool before(const Sequence& a, const Sequence& b);
  void heap_push(Sequence& s);
  void heap_remove(Sequence& s);
  void heap_fix(size_t at);

  EngineConfig config_;
  std::vector<double> token_bounds_;
  Counters counters_;
  std::unique_ptr<PrefixCache> cache_;
  std::vector<Adapter> adapters_;
  std::vector<Sequence*> heap_;  // running, by due time
  Sequence *waiting_head_ = nullptr, *waiting_tail_ = nullptr;
  uint64_t submitted_ = 0;
  uint64_t revision_ = 0;
};

}  // namespace llmd::sim
