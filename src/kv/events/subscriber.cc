#include "kv_events/subscriber.h"

#include "central_link.h"
#include "pod_link.h"

#include "base/log.h"
#include "base/mutex.h"
#include "base/rng.h"
#include "io/loop_thread.h"

#include <fmt/format.h>

#include <map>
#include <vector>

namespace llmd::kv_events {
namespace {

/// FNV-1a, so that a pod is with the same thread wherever that is looked at.
uint32_t hash_of(std::string_view text) {
  uint32_t hash = 0x811c9dc5;
  for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 0x01000193;
  return hash;
}

/// A followed pod has four sockets: events, its connections twice, an answer.
constexpr int kSocketsMax = 4 * static_cast<int>(limits::kEndpointsMax) + 16;

}  // namespace

std::string tcp_endpoint(std::string_view address, uint16_t port) {
  const bool v6 = address.find(':') != address.npos;
  return fmt::format("tcp://{}{}{}:{}", v6 ? "[" : "", address, v6 ? "]" : "", port);
}

struct Subscriber::State {
  struct Shard {
    Shard(State& s, size_t number, size_t first_cell)
        : thread(fmt::format("kv-events-{}", number), first_cell + number, random_seed(), s.clock),
          decoder(*s.options.adapter),
          context{thread.loop(),
                  s.zmq,
                  {decoder, s.sink, s.metrics, s.clock},
                  s.options,
                  s.replays_left} {}

    io::LoopThread thread;
    BatchDecoder decoder;
    LinkContext context;
    std::unique_ptr<CentralLink> central;
    std::map<std::string, std::unique_ptr<PodLink>, std::less<>> links;  // by id

    void follow(const PublisherSpec& spec) {
      auto link = std::make_unique<PodLink>(context, spec);
      if (auto started = link->start(); !started) {
        context.stream.metrics.error(spec.pod, "connect");
        log::warn("KV events of an endpoint cannot be followed",
                  {{"endpoint", spec.id}, {"error", started.error().message}});
        link->leave();
        return;
      }
      links[spec.id] = std::move(link);
    }
    void unfollow(const PublisherSpec& spec) {
      const auto found = links.find(spec.id);
      if (found == links.end()) return;
      found->second->leave();
      links.erase(found);
      context.stream.metrics.forget_pod(spec.pod);
    }
  };

  State(SubscriberOptions o, EventSink& k, metric::Registry& registry, const Clock& c)
      : options(std::move(o)), sink(k), metrics(registry), clock(c), zmq(kSocketsMax) {
    if (!options.adapter) options.adapter = adapters().front();
  }

  Shard& shard_of(std::string_view pod) { return *shards[hash_of(pod) % shards.size()]; }

  template <class Work>
  static void post(Shard& shard, Work work) {
    shard.thread.loop().post(std::move(work));
  }

  SubscriberOptions options;
  EventSink& sink;
  SubscriberMetrics metrics;
  const Clock& clock;
  std::atomic<int> replays_left{kReplaysMax};
  ZmqContext zmq;
  std::vector<std::unique_ptr<Shard>> shards;
  std::string bound;

  mutable Mutex mutex;  // held while posting, so that threads see changes in their order
  std::map<std::string, PublisherSpec> specs LLMD_GUARDED_BY(mutex);
};

Subscriber::Subscriber(std::unique_ptr<State> state) : state_(std::move(state)) {}

Result<std::unique_ptr<Subscriber>> Subscriber::start(SubscriberOptions options, EventSink& sink,
                                                      metric::Registry& metrics, size_t first_cell,
                                                      const Clock& clock) {
  if (options.threads == 0) return fail(Code::kBadRequest, "concurrency: must be at least 1");
  auto state = std::make_unique<State>(std::move(options), sink, metrics, clock);
  for (size_t i = 0; i < state->options.threads; ++i)
    state->shards.push_back(std::make_unique<State::Shard>(*state, i, first_cell));
  if (!state->options.bind_endpoint.empty()) {
    State::Shard& shard = *state->shards.front();
    shard.central = std::make_unique<CentralLink>(shard.context);
    if (auto bound = shard.central->start(); !bound)
      return fail(std::move(bound).error().in("zmqEndpoint"));
    state->bound = shard.central->bound_endpoint();
  }
  state->metrics.threads.set(static_cast<double>(state->shards.size()));
  for (const auto& shard : state->shards) shard->thread.start();
  return std::unique_ptr<Subscriber>(new Subscriber(std::move(state)));
}

Subscriber::~Subscriber() {
  for (const auto& shard : state_->shards) shard->thread.stop();
}

void Subscriber::follow(PublisherSpec spec) {
  const MutexLock lock(state_->mutex);
  const auto [at, fresh] = state_->specs.try_emplace(spec.id, spec);
  if (!fresh) {
    if (at->second == spec) return;
    State::Shard& old = state_->shard_of(at->second.pod);
    State::post(old, [&old, was = at->second] { old.unfollow(was); });
    at->second = spec;
  }
  state_->metrics.subscribers.set(static_cast<double>(state_->specs.size()));
  State::Shard& shard = state_->shard_of(spec.pod);
  State::post(shard, [&shard, spec = std::move(spec)] { shard.follow(spec); });
}

void Subscriber::unfollow(const std::string& id) {
  const MutexLock lock(state_->mutex);
  const auto found = state_->specs.find(id);
  if (found == state_->specs.end()) return;
  State::Shard& shard = state_->shard_of(found->second.pod);
  State::post(shard, [&shard, spec = std::move(found->second)] { shard.unfollow(spec); });
  state_->specs.erase(found);
  state_->metrics.subscribers.set(static_cast<double>(state_->specs.size()));
}

void Subscriber::forget_pod(const std::string& pod) {
  State::Shard& shard = *state_->shards.front();
  if (!shard.central) return;
  State::post(shard, [&shard, pod] {
    shard.central->forget_pod(pod);
    shard.context.stream.metrics.forget_pod(pod);
  });
}

std::string Subscriber::bound_endpoint() const {
  return state_->bound;
}

size_t Subscriber::followed() const {
  const MutexLock lock(state_->mutex);
  return state_->specs.size();
}

}  // namespace llmd::kv_events
