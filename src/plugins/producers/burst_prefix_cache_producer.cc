#include "burst_assignment.h"

#include "base/mutex.h"
#include "kv/block_hash.h"
#include "plugin/registry.h"
#include "schedule/attributes.h"
#include "schedule/interfaces.h"
#include "schedule/wiring.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

namespace llmd::plugins {
namespace {

using schedule::PrefixMatch;
using schedule::Progress;
using schedule::RequestContext;

/// A window takes no more requests than this, whatever maxBatchSize is.
constexpr int64_t kBatchMost = 10'000;
constexpr int64_t kDefaultBlocks = 2048;
/// How long a window whose requests have all given up is kept.
constexpr Nanos kKept = std::chrono::seconds(1);

/// How long a request waits for another loop that assigns its window.
constexpr Nanos kAssigning = std::chrono::milliseconds(1);

struct Params {
  int64_t window_ms = 100;
  int64_t per_replica_max = -1;
  int64_t block_tokens = 64;
  int64_t match_tokens_max = 0;
  int64_t colocate_blocks_min = 0;
  int64_t batch_max = 1000;
  std::string balance_by = "requests";
};

const plugin::Params<Params>& table() {
  static const plugin::Params<Params> params = {
      plugin::field("windowDurationMs", &Params::window_ms, "milliseconds",
                    "How long requests are collected before they are assigned together.")
          .min(1)
          .max(10000),
      plugin::field("maxPerReplica", &Params::per_replica_max, "requests",
                    "Requests of one prompt and window that go to one endpoint; -1: any number.")
          .min(-1),
      plugin::field("blockSizeTokens", &Params::block_tokens, "tokens", "Block size.").positive(),
      plugin::field("maxPrefixTokensToMatch", &Params::match_tokens_max, "tokens",
                    "How much of a prompt is compared; 0: 2048 blocks.")
          .min(0),
      plugin::field("minColocateBlocks", &Params::colocate_blocks_min, "blocks",
                    "So many common blocks at the beginning keep different prompts together; 0: "
                    "only equal prompts are.")
          .min(0),
      plugin::field("maxBatchSize", &Params::batch_max, "requests",
                    "Requests a window takes; -1: 10000. Further ones are not assigned.")
          .min(-1)
          .max(kBatchMost),
      plugin::field("balanceBy", &Params::balance_by, "",
                    "Whether endpoints are loaded alike in requests or in tokens to process.")
          .one_of({"requests", "tokens"}),
  };
  return params;
}

/// Requests that arrived within one window.
struct Window {
  struct Replica {
    std::string id;
    uint64_t generation = 0;
    int64_t running = 0;
  };

  enum class State : uint8_t {
    kOpen,       // takes requests until its end, and is then assigned by the first to collect
    kAssigning,  // by that one, without the lock: nobody else touches prompts and assigned
    kAssigned,
  };

  TimePoint end{};
  State state = State::kOpen;
  std::vector<std::vector<uint64_t>> prompts;  // by member
  std::vector<Replica> replicas;               // candidates of the first member
  std::vector<uint64_t> assigned;              // by member, generations; 0: none
  size_t collected = 0;                        // members that have got their assignment
};

/// The windows of one producer name, shared by all loops, since a burst comes in on all of them.
/// Outlives configurations. Threading: any; a lock for a few words, never while prompts are hashed
/// or a window is assigned.
class Windows {
 public:
  struct Ticket {
    uint64_t window = 0;  // 0: none
    size_t member = 0;
  };

  /// Adds a request to the open window, or to a new one; nothing when it is full.
  std::optional<Ticket> join(const RequestContext& context, std::vector<uint64_t> prompt,
                             Nanos duration, size_t batch_max) {
    const TimePoint now = context.clock.now();
    const MutexLock lock(mutex_);
    drop_old(now);
    if (windows_.empty() || !takes(*windows_.rbegin()->second, now)) open(context, now + duration);
    auto& [id, window] = *windows_.rbegin();
    if (window->prompts.size() >= batch_max) return std::nullopt;
    window->prompts.push_back(std::move(prompt));
    return Ticket{id, window->prompts.size() - 1};
  }

  Nanos left(Ticket ticket, TimePoint now) const {
    const MutexLock lock(mutex_);
    const auto at = windows_.find(ticket.window);
    return at == windows_.end() ? Nanos(0) : std::max(Nanos(0), at->second->end - now);
  }

  /// The generation of the endpoint for this request, 0: none; nothing while the window is being
  /// assigned on another loop. The first to ask after the end of the window assigns all.
  std::optional<uint64_t> collect(Ticket ticket, const BurstRules& rules) {
    std::shared_ptr<Window> window;
    {
      const MutexLock lock(mutex_);
      const auto at = windows_.find(ticket.window);
      if (at == windows_.end()) return 0;
      window = at->second;
      if (window->state == Window::State::kAssigning) return std::nullopt;
      if (window->state == Window::State::kAssigned) return take(ticket, *window);
      window->state = Window::State::kAssigning;
    }
    assign(*window, rules);
    const MutexLock lock(mutex_);
    window->state = Window::State::kAssigned;
    return take(ticket, *window);
  }

 private:
  using Map = std::map<uint64_t, std::shared_ptr<Window>>;

  static bool takes(const Window& window, TimePoint now) {
    return window.state == Window::State::kOpen && now < window.end;
  }

  uint64_t take(Ticket ticket, Window& window) LLMD_REQUIRES(mutex_) {
    const uint64_t mine = window.assigned[ticket.member];
    if (++window.collected == window.prompts.size()) windows_.erase(ticket.window);
    return mine;
  }

  void open(const RequestContext& context, TimePoint end) LLMD_REQUIRES(mutex_) {
    auto window = std::make_shared<Window>();
    window->end = end;
    for (const auto& candidate : context.candidates)
      window->replicas.push_back({candidate.endpoint->id(), candidate.generation,
                                  candidate.metrics.running_requests_size});
    windows_[++last_] = std::move(window);
  }

  static void assign(Window& window, const BurstRules& rules) {
    std::vector<BurstReplica> replicas;
    replicas.reserve(window.replicas.size());
    for (const auto& replica : window.replicas) replicas.push_back({replica.id, replica.running});
    const auto targets = assign_burst(window.prompts, replicas, rules);
    window.assigned.reserve(targets.size());
    for (const auto& target : targets)
      window.assigned.push_back(target ? window.replicas[*target].generation : 0);
  }

  void drop_old(TimePoint now) LLMD_REQUIRES(mutex_) {
    std::erase_if(windows_, [&](const auto& w) { return w.second->end + kKept < now; });
  }

  mutable Mutex mutex_;
  Map windows_ LLMD_GUARDED_BY(mutex_);  // the newest last
  uint64_t last_ LLMD_GUARDED_BY(mutex_) = 0;
};

class BurstPrefixCacheProducer final : public schedule::Producer {
 public:
  static Result<std::unique_ptr<BurstPrefixCacheProducer>> create(const Params& p,
                                                                  const plugin::Context& context) {
    for (const auto& [name, value] :
         {std::pair("maxPerReplica", p.per_replica_max), std::pair("maxBatchSize", p.batch_max)})
      if (value == 0)
        return fail(Code::kBadRequest,
                    "parameter '" + std::string(name) + "' must be -1 or at least 1, not 0");
    if (p.match_tokens_max > 0 && p.match_tokens_max < p.block_tokens)
      return fail(Code::kBadRequest,
                  "parameter 'maxPrefixTokensToMatch' must be 0 or at least blockSizeTokens");
    return std::make_unique<BurstPrefixCacheProducer>(p, context);
  }

  BurstPrefixCacheProducer(const Params& p, const plugin::Context& context)
      : window_(std::chrono::milliseconds(p.window_ms)),
        block_tokens_(p.block_tokens),
        blocks_max_(static_cast<size_t>(p.match_tokens_max > 0 ? p.match_tokens_max / p.block_tokens
                                                               : kDefaultBlocks)),
        batch_max_(static_cast<size_t>(p.batch_max < 0 ? kBatchMost : p.batch_max)),
        rules_{.per_replica_max = p.per_replica_max,
               .colocate_blocks_min = static_cast<size_t>(p.colocate_blocks_min),
               .balance_by_tokens = p.balance_by == "tokens"},
        windows_(context.state.get<Windows>(context.name, [] { return new Windows; })) {}

  void wire(schedule::Wiring& wiring) override {
    wiring.consumes<schedule::TokenizedPrompt>("token-producer", schedule::Need::kRequired);
    matches_ = wiring.produces<PrefixMatch>();
    waiting_ = wiring.request_slot<Waiting>();
  }

  Nanos deadline() const override { return window_ + std::chrono::milliseconds(300); }

  Result<Progress> produce(RequestContext& context) const override {
    auto& waiting = context.slot(waiting_);
    if (waiting.ticket.window == 0) {
      auto prompt = hash(context);
      waiting.blocks = static_cast<int64_t>(prompt.size());
      if (prompt.empty()) return Progress::kDone;
      const auto ticket = windows_->join(context, std::move(prompt), window_, batch_max_);
      if (!ticket) return fail(Code::kResourceExhausted, "the window is full");
      waiting.ticket = *ticket;
    }
    if (const Nanos left = windows_->left(waiting.ticket, context.clock.now()); left > Nanos(0)) {
      context.suspend_for(left);
      return Progress::kSuspended;
    }
    const auto target = windows_->collect(waiting.ticket, rules_);
    if (!target) {
      context.suspend_for(kAssigning);
      return Progress::kSuspended;
    }
    const auto matches = context.write(matches_);
    for (size_t i = 0; i < matches.size(); ++i) {
      const bool here = context.candidates[i].generation == *target;
      const int64_t blocks = here ? waiting.blocks : 0;
      matches[i] = {.match_blocks = static_cast<double>(blocks),
                    .total_blocks = waiting.blocks,
                    .block_tokens = block_tokens_,
                    .cached_blocks = blocks};
    }
    return Progress::kDone;
  }

 private:
  struct Waiting {
    Windows::Ticket ticket;
    int64_t blocks = 0;
  };

  /// The chains of all prompts, one behind the other.
  std::vector<uint64_t> hash(RequestContext& context) const {
    std::vector<uint64_t> all;
    if (!context.request) return all;
    const uint64_t seed = kv::chain_seed(context.target_model, context.request->cache_salt);
    for (const auto& prompt : context.request->prompts) {
      const auto chain = kv::block_hashes(prompt, seed, static_cast<size_t>(block_tokens_),
                                          blocks_max_, context.arena);
      all.insert(all.end(), chain.begin(), chain.end());
    }
    return all;
  }

  const Nanos window_;
  const int64_t block_tokens_;
  const size_t blocks_max_;
  const size_t batch_max_;
  const BurstRules rules_;
  const std::shared_ptr<Windows> windows_;
  schedule::Produced<PrefixMatch> matches_;
  schedule::RequestSlot<Waiting> waiting_;
};

}  // namespace

const plugin::Descriptor& burst_prefix_cache_producer() {
  static const auto descriptor = plugin::describe<BurstPrefixCacheProducer>(
      {.type = "burst-prefix-cache-producer",
       .kind = "producer",
       .summary = "Collects the requests of a short window and assigns them together, so that "
                  "equal prompts that arrive at once are computed on few endpoints. Requests wait "
                  "for the end of the window.",
       .stability = plugin::Stability::kAlpha},
      table());
  return descriptor;
}

}  // namespace llmd::plugins
