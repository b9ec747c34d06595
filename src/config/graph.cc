#include "graph.h"

#include "base/check.h"
#include "base/text.h"

#include <algorithm>
#include <map>
#include <set>

namespace llmd::config {
namespace {

using Edge = schedule::Wiring::Edge;

std::string_view after_slash(std::string_view key) {
  return key.substr(key.rfind('/') + 1);
}

/// "KIND/NAME" as "KIND of 'NAME'".
std::string readable(std::string_view key) {
  const std::string name = "'" + std::string(after_slash(key)) + "'";
  const size_t slash = key.rfind('/');
  return slash == key.npos ? name : std::string(key.substr(0, slash)) + " of " + name;
}

/// When a plugin runs: before admission, around scheduling, or in it. -1: at no time of its own.
int layer(const Instance& instance) {
  // A detector has no request to read from, but its filter has.
  if (instance.is<schedule::SaturationDetector>() && !instance.is<schedule::Filter>()) return 0;
  if (instance.is<schedule::RequestHook>() || instance.is<schedule::Producer>() ||
      instance.is<schedule::Screener>() || instance.is<schedule::Admitter>() ||
      instance.is<schedule::PreRequest>() || instance.is<schedule::ResponseHook>() ||
      instance.is<schedule::Reporter>())
    return 1;
  if (instance.is<schedule::Filter>() || instance.is<schedule::Scorer>() ||
      instance.is<schedule::Picker>() || instance.is<schedule::ProfileHandler>())
    return 2;
  return -1;
}

class Connector {
 public:
  Connector(Instances& instances, schedule::Wiring& wiring, const plugin::Registry& registry,
            std::vector<std::string>& warnings)
      : instances_(instances), wiring_(wiring), registry_(registry), warnings_(warnings) {}

  Status run() {
    wiring_.find_with([this](std::string_view name) -> const plugin::Plugin* {
      Instance* found = instances_.find(name);
      if (!found) return nullptr;
      found->used = true;
      return found->plugin.get();
    });
    do {
      LLMD_TRY(wire_new());
      LLMD_TRY(create_missing());
    } while (wired_ < instances_.size());
    for (const auto& edge : wiring_.edges())
      if (edge.kind != Edge::Kind::kProduces) LLMD_TRY(check(edge));
    return {};
  }

 private:
  Status wire_new() {
    size_t i = 0;
    for (auto& instance : instances_) {
      if (i++ < wired_) continue;
      ++wired_;
      auto* plugin = dynamic_cast<schedule::Wired*>(instance.plugin.get());
      if (!plugin) continue;
      wiring_.begin(*plugin);
      plugin->wire(wiring_);
      if (!wiring_.status()) return fail(Error(wiring_.status().error()).in(instance.label()));
    }
    return {};
  }

  const Edge* producer_of(std::string_view key) const {
    for (const auto& edge : wiring_.edges())
      if (edge.kind == Edge::Kind::kProduces && edge.key == key) return &edge;
    return nullptr;
  }

  Instance& instance_of(const plugin::Plugin* plugin) { return *instances_.find(plugin->name()); }

  const plugin::Descriptor* default_producer(std::string_view key) const {
    for (const auto& descriptor : registry_.descriptors())
      if (std::ranges::find(descriptor.produces_by_default, key) !=
          descriptor.produces_by_default.end())
        return &descriptor;
    return nullptr;
  }

  /// Instances that produce the same kind of value as `key`, to suggest one.
  std::string suggest_producer(const Edge& wanted) const {
    std::vector<std::string_view> names;
    for (const auto& edge : wiring_.edges())
      if (edge.kind == Edge::Kind::kProduces && edge.type == wanted.type)
        names.push_back(edge.plugin->name());
    if (names.empty()) return "";
    std::string near = suggestion(after_slash(wanted.key), names);
    return near.empty() ? " (produced by '" + std::string(names.front()) + "')" : near;
  }

  Status create_missing() {
    const auto edges = wiring_.edges();  // a copy: wiring goes on below
    for (const auto& edge : edges) {
      if (edge.kind != Edge::Kind::kRequires || producer_of(edge.key)) continue;
      const auto* descriptor = default_producer(edge.key);
      if (!descriptor)
        return fail(Code::kBadRequest, instance_of(edge.plugin).label() + ": needs " +
                                           readable(edge.key) + ", which no plugin produces" +
                                           suggest_producer(edge));
      if (instances_.find(descriptor->type)) {
        if (instance_is_wired(descriptor->type) && unproduced_.insert(edge.key).second)
          warnings_.push_back(instance_of(edge.plugin).label() + ": needs '" + edge.key +
                              "', which the plugin of that name does not produce");
        continue;
      }
      LLMD_TRY(instances_.add(descriptor->type, "auto-created for '" + edge.plugin->name() + "'"));
    }
    return {};
  }

  bool instance_is_wired(std::string_view name) {
    size_t i = 0;
    for (const auto& instance : instances_) {
      if (instance.name() == name) return i < wired_;
      ++i;
    }
    return false;
  }

  Status check(const Edge& consumer) {
    const Edge* producer = producer_of(consumer.key);
    if (!producer || producer->plugin == consumer.plugin) return {};
    Instance& from = instance_of(producer->plugin);
    Instance& to = instance_of(consumer.plugin);
    from.used = true;
    if (producer->type != consumer.type)
      return fail(Code::kBadRequest, to.label() + ": reads '" + consumer.key +
                                         "' as another type than '" + from.name() + "' produces");
    if (layer(to) >= 0 && layer(from) > layer(to))
      return fail(Code::kBadRequest, to.label() + ": runs before '" + from.name() + "', whose '" +
                                         consumer.key + "' it reads");
    return {};
  }

  Instances& instances_;
  schedule::Wiring& wiring_;
  const plugin::Registry& registry_;
  std::vector<std::string>& warnings_;
  size_t wired_ = 0;
  std::set<std::string> unproduced_;
};

/// Who must run before whom.
class Order {
 public:
  Order(Instances& instances, const schedule::Wiring& wiring) {
    for (auto& instance : instances)
      if (instance.is<schedule::Producer>()) waiting_.push_back(&instance);
    std::map<std::string_view, Instance*> makers;
    for (const auto& edge : wiring.edges())
      if (edge.kind == Edge::Kind::kProduces)
        makers[edge.key] = instances.find(edge.plugin->name());
    for (const auto& edge : wiring.edges()) {
      const auto maker = makers.find(edge.key);
      if (edge.kind == Edge::Kind::kProduces || maker == makers.end()) continue;
      Instance* reader = instances.find(edge.plugin->name());
      if (maker->second == reader) continue;
      auto& before = edge.kind == Edge::Kind::kRequires ? required_ : optional_;
      before[reader].push_back(maker->second);
    }
  }

  Result<std::vector<Instance*>> run(std::vector<std::string>& warnings) {
    std::vector<Instance*> order;
    while (!waiting_.empty()) {
      auto next = std::ranges::find_if(
          waiting_, [&](Instance* i) { return ready(required_[i]) && ready(optional_[i]); });
      if (next == waiting_.end()) {
        next = std::ranges::find_if(waiting_, [&](Instance* i) { return ready(required_[i]); });
        if (next == waiting_.end()) return fail(Code::kBadRequest, describe_cycle());
        warnings.push_back(
            (*next)->label() +
            ": runs before a producer whose optional output it reads: they read from "
            "each other");
      }
      order.push_back(*next);
      waiting_.erase(next);
    }
    return order;
  }

 private:
  bool is_waiting(const Instance* instance) const {
    return std::ranges::find(waiting_, instance) != waiting_.end();
  }
  bool ready(const std::vector<Instance*>& before) const {
    return std::ranges::none_of(before, [&](const Instance* i) { return is_waiting(i); });
  }

  /// Requires: every waiting instance waits for another.
  std::string describe_cycle() {
    std::vector<Instance*> path;
    Instance* at = waiting_.front();
    while (std::ranges::find(path, at) == path.end()) {
      path.push_back(at);
      at = *std::ranges::find_if(required_[at], [&](const Instance* i) { return is_waiting(i); });
    }
    std::string text = at->label() + ": producers need each other: '" + at->name() + "'";
    for (auto i = std::ranges::find(path, at) + 1; i != path.end(); ++i)
      text += " <- '" + (*i)->name() + "'";
    return text + " <- '" + at->name() + "'";
  }

  std::vector<Instance*> waiting_;  // in declaration order
  std::map<Instance*, std::vector<Instance*>> required_;
  std::map<Instance*, std::vector<Instance*>> optional_;
};

}  // namespace

Status connect(Instances& instances, schedule::Wiring& wiring, const plugin::Registry& registry,
               std::vector<std::string>& warnings) {
  return Connector(instances, wiring, registry, warnings).run();
}

Result<std::vector<Instance*>> order_producers(Instances& instances, const schedule::Wiring& wiring,
                                               std::vector<std::string>& warnings) {
  return Order(instances, wiring).run(warnings);
}

}  // namespace llmd::config
