#include "fleet/fleet.h"

#include "base/limits.h"
#include "base/log.h"
#include "base/mutex.h"

#include <atomic>
#include <list>
#include <map>
#include <set>

namespace llmd::fleet {
namespace {

bool same_identity(const EndpointSpec& a, const EndpointSpec& b) {
  return a.address == b.address && a.port == b.port && a.scheme == b.scheme &&
         a.server_name == b.server_name;
}

/// Sorts labels by key; of equal keys the later wins.
void normalise(EndpointSpec& spec) {
  std::map<std::string, std::string> labels;
  for (auto& [key, value] : spec.labels) labels.insert_or_assign(std::move(key), std::move(value));
  spec.labels.assign(labels.begin(), labels.end());
}

}  // namespace

struct Fleet::State {
  Mutex snapshot_mutex;  // innermost
  SnapshotPtr snapshot LLMD_GUARDED_BY(snapshot_mutex) = std::make_shared<const Snapshot>();

  Mutex change_mutex;  // held while listeners run
  std::map<std::string, EndpointPtr, std::less<>> members LLMD_GUARDED_BY(change_mutex);
  std::set<uint32_t> free_slots LLMD_GUARDED_BY(change_mutex);
  uint32_t slots_made LLMD_GUARDED_BY(change_mutex) = 0;
  uint64_t next_generation LLMD_GUARDED_BY(change_mutex) = 1;
  std::list<std::function<void(const SnapshotPtr&)>> subscribers LLMD_GUARDED_BY(change_mutex);
  std::list<std::shared_ptr<MembershipListener>> listeners LLMD_GUARDED_BY(change_mutex);

  std::atomic<uint64_t> refused{0};

  struct Change {
    std::vector<EndpointPtr> removed, added;
    bool empty() const { return removed.empty() && added.empty(); }
  };

  Change replace_members(std::map<std::string, EndpointSpec> wanted) LLMD_REQUIRES(change_mutex);
  bool take_slot(uint32_t& slot) LLMD_REQUIRES(change_mutex);
  void publish() LLMD_REQUIRES(change_mutex);
  template <class T>
  std::shared_ptr<void> token(const std::shared_ptr<State>& self, std::list<T>& list,
                              typename std::list<T>::iterator at);
};

/// Brings `members` to `wanted`. Slots of the removed are free for the added.
Fleet::State::Change Fleet::State::replace_members(std::map<std::string, EndpointSpec> wanted) {
  Change change;
  for (auto at = members.begin(); at != members.end();) {
    const auto kept = wanted.find(at->first);
    if (kept != wanted.end() && same_identity(kept->second, at->second->spec())) {
      ++at;
      continue;
    }
    free_slots.insert(at->second->slot());
    change.removed.push_back(std::move(at->second));
    at = members.erase(at);
  }
  uint64_t excess = 0;
  for (auto& [id, spec] : wanted) {
    auto& member = members[id];
    if (member && member->spec() == spec) continue;
    uint32_t slot = 0;
    if (member) {
      auto relabelled =
          std::make_shared<Endpoint>(std::move(spec), member->slot(), member->generation());
      relabelled->metrics.store(member->metrics.load());
      relabelled->details.store(member->details.load());
      relabelled->health.carry_over(member->health);
      member = std::move(relabelled);
    } else if (take_slot(slot)) {
      member = std::make_shared<Endpoint>(std::move(spec), slot, next_generation++);
    } else {
      members.erase(id);
      ++excess;
      continue;
    }
    change.added.push_back(member);
  }
  if (excess != 0) {
    refused.fetch_add(excess, std::memory_order_relaxed);
    log::error(
        "fleet is full, new endpoints are refused",
        {{"refused", excess}, {"endpoints", members.size()}, {"limit", limits::kEndpointsMax}});
  }
  return change;
}

bool Fleet::State::take_slot(uint32_t& slot) {
  if (!free_slots.empty()) {
    slot = *free_slots.begin();
    free_slots.erase(free_slots.begin());
    return true;
  }
  if (slots_made == limits::kEndpointsMax) return false;
  slot = slots_made++;
  return true;
}

void Fleet::State::publish() {
  auto next = std::make_shared<Snapshot>();
  next->endpoints.reserve(members.size());
  for (const auto& [id, endpoint] : members) next->endpoints.push_back(endpoint);
  const MutexLock lock(snapshot_mutex);
  next->version = snapshot->version + 1;
  snapshot = std::move(next);
}

template <class T>
std::shared_ptr<void> Fleet::State::token(const std::shared_ptr<State>& self, std::list<T>& list,
                                          typename std::list<T>::iterator at) {
  return {nullptr, [self, &list, at](void*) {
            const MutexLock lock(self->change_mutex);
            list.erase(at);
          }};
}

Fleet::Fleet() : state_(std::make_shared<State>()) {}

void Fleet::set(std::vector<EndpointSpec> specs) {
  std::map<std::string, EndpointSpec> wanted;
  for (auto& spec : specs) {
    normalise(spec);
    auto id = spec.ns + "/" + spec.name;
    wanted.insert_or_assign(std::move(id), std::move(spec));
  }
  State& s = *state_;
  const MutexLock lock(s.change_mutex);
  const auto change = s.replace_members(std::move(wanted));
  if (change.empty()) return;
  for (const auto& listener : s.listeners) {
    for (const auto& endpoint : change.removed) listener->on_removed(endpoint);
    for (const auto& endpoint : change.added) listener->on_added(endpoint);
  }
  s.publish();
  const auto now = snapshot();
  for (const auto& subscriber : s.subscribers) subscriber(now);
}

SnapshotPtr Fleet::snapshot() const {
  const MutexLock lock(state_->snapshot_mutex);
  return state_->snapshot;
}

uint64_t Fleet::refused() const {
  return state_->refused.load(std::memory_order_relaxed);
}

std::shared_ptr<void> Fleet::subscribe(std::function<void(const SnapshotPtr&)> on_change) {
  const MutexLock lock(state_->change_mutex);
  auto& list = state_->subscribers;
  return state_->token(state_, list, list.insert(list.end(), std::move(on_change)));
}

std::shared_ptr<void> Fleet::listen(std::shared_ptr<MembershipListener> listener) {
  const MutexLock lock(state_->change_mutex);
  for (const auto& [id, endpoint] : state_->members) listener->on_added(endpoint);
  auto& list = state_->listeners;
  return state_->token(state_, list, list.insert(list.end(), std::move(listener)));
}

}  // namespace llmd::fleet
