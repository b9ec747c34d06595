#pragma once

#include "base/result.h"
#include "fleet/endpoint.h"
#include "plugin/plugin.h"
#include "schedule/request_context.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <typeindex>
#include <utility>
#include <vector>

namespace llmd::schedule {

enum class Need : uint8_t { kRequired, kOptional };

/// Collects, at load, what every plugin produces and consumes; turns keys into column numbers;
/// yields the producer order and the keys for which a default producer must be created (spec 02
/// §1.6). Threading: load only.
class Wiring {
 public:
  struct Edge {
    const plugin::Plugin* plugin;
    std::string key;  // "Type/producer"
    std::type_index type;
    enum class Kind : uint8_t { kProduces, kRequires, kUses } kind;
  };

  /// `prefill` is the profile that picks where prompts are processed, if they are apart.
  explicit Wiring(std::vector<std::string> profiles = {}, std::string_view prefill = "prefill")
      : profiles_(std::move(profiles)), prefill_(profile(prefill)) {}

  /// The index of the profile with this name, or UINT16_MAX.
  uint16_t profile(std::string_view name) const;
  uint16_t prefill_profile() const { return prefill_; }

  /// Names the plugin whose wire() is about to run.
  void begin(const plugin::Plugin& plugin) { current_ = &plugin; }

  /// T::kKey + "/" + the instance name of the calling plugin.
  template <class T>
  Produced<T> produces() {
    return {add(Edge::Kind::kProduces, std::string(T::kKey) + "/" + current_->name(), typeid(T))};
  }
  template <class T>
  Consumed<T> consumes(std::string_view producer, Need need) {
    return {add(need == Need::kRequired ? Edge::Kind::kRequires : Edge::Kind::kUses,
                std::string(T::kKey) + "/" + std::string(producer), typeid(T))};
  }
  /// T of whoever produces it: the instance called `preferred` if it does, else the first one. No
  /// column: nobody.
  template <class T>
  Consumed<T> any(std::string_view preferred) const {
    return {find_produced(typeid(T), std::string(T::kKey) + "/" + std::string(preferred))};
  }
  /// Attributes of the whole request. `key` is the full one: "Type/producer".
  template <class T>
  ProducedValue<T> produces_value(std::string key) {
    return {add(Edge::Kind::kProduces, std::move(key), typeid(T))};
  }
  template <class T>
  ConsumedValue<T> consumes_value(std::string key, Need need) {
    return {add(need == Need::kRequired ? Edge::Kind::kRequires : Edge::Kind::kUses, std::move(key),
                typeid(T))};
  }
  /// The plugin `name`, which is a T, for plugins that call others. A wrong one rejects the
  /// configuration and gives null; `parameter` says where it is named, `kind` what T is.
  template <class T>
  const T* refer(std::string_view name, std::string_view parameter, std::string_view kind) {
    const auto* plugin = find<T>(name);
    if (!plugin) reject_reference(name, parameter, kind, find_ && find_(name));
    return plugin;
  }
  /// The plugin `name` if there is one and it is a T, else null.
  template <class T>
  const T* find(std::string_view name) const {
    return find_ ? dynamic_cast<const T*>(find_(name)) : nullptr;
  }
  /// How refer() and find() look plugins up.
  void find_with(std::function<const plugin::Plugin*(std::string_view name)> find) {
    find_ = std::move(find);
  }
  /// What is wrong with the plugin wired last.
  const Status& status() const { return status_; }

  template <class T>
  RequestSlot<T> request_slot() {
    return {static_cast<uint16_t>(slots_++)};
  }
  /// Subscribes per-endpoint state to membership changes for as long as the pipeline lives.
  void listen(std::shared_ptr<fleet::MembershipListener> listener) {
    listeners_.push_back(std::move(listener));
  }

  const std::vector<Edge>& edges() const { return edges_; }
  size_t columns() const { return keys_.size(); }
  size_t slots() const { return slots_; }
  const std::vector<std::shared_ptr<fleet::MembershipListener>>& listeners() const {
    return listeners_;
  }

 private:
  void reject_reference(std::string_view name, std::string_view parameter, std::string_view kind,
                        bool exists);
  uint16_t add(Edge::Kind kind, std::string key, std::type_index type);
  uint16_t find_produced(std::type_index type, std::string_view preferred) const;

  const plugin::Plugin* current_ = nullptr;
  std::vector<std::string> profiles_;
  uint16_t prefill_;
  std::function<const plugin::Plugin*(std::string_view)> find_;
  Status status_;
  std::vector<Edge> edges_;
  std::vector<std::string> keys_;
  size_t slots_ = 0;
  std::vector<std::shared_ptr<fleet::MembershipListener>> listeners_;
};

}  // namespace llmd::schedule
