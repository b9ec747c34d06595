#pragma once

#include "base/check.h"
#include "codec/node.h"
#include "plugin/registry.h"
#include "schedule/interfaces.h"
#include "schedule/pipeline.h"
#include "schedule/wiring.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Doubles for tests and benchmarks of plugins: a fleet of idle endpoints, a request, and ways to
/// call one plugin.
namespace llmd::schedule::testing {

using Labels = std::vector<std::pair<std::string, std::string>>;

/// Stands in for whoever produces attribute T.
template <class T>
class FakeProducer final : public Wired {
 public:
  void wire(Wiring& wiring) override { column = wiring.produces<T>(); }
  Produced<T> column;
};

/// Endpoint i is "default/e<i>" at 10.0.0.<i>:8000, slot i, generation i + 1.
/// Lifetime: owns the plugins that it makes and the request. Threading: one thread.
class Harness {
 public:
  explicit Harness(size_t count) : Harness(std::vector<Labels>(count)) {}
  explicit Harness(const std::vector<Labels>& labels) {
    wiring.find_with([this](std::string_view name) -> const plugin::Plugin* {
      const auto at = std::ranges::find(
          plugins_, name, [](const auto& p) -> std::string_view { return p->name(); });
      return at == plugins_.end() ? nullptr : at->get();
    });
    context.wake_in = [this](Nanos delay) { slept = delay; };
    for (const auto& of_endpoint : labels) add_endpoint(of_endpoint);
    fresh_request();
  }
  Harness(const Harness&) = delete;
  Harness& operator=(const Harness&) = delete;

  /// A new request with the same endpoints and metrics; attributes, slots and results are gone.
  void fresh_request() {
    arena.reset();
    context.columns = arena.array<void*>(kSlotsMax);
    context.slots = arena.array<void*>(kSlotsMax);
    context.results = arena.array<ProfileResult>(kProfilesMax);
    context.primary = UINT16_MAX;
    context.request_headers = HeaderEdits(arena);
    context.response_headers = HeaderEdits(arena);
    context.forward_port = 0;
    context.candidates = arena.array<Candidate>(endpoints.size());
    for (size_t i = 0; i < endpoints.size(); ++i)
      context.candidates[i] = {endpoints[i].get(), metrics[i]};
    ++context.serial;
  }

  fleet::EndpointMetrics& metrics_of(size_t i) { return context.candidates[i].metrics; }

  /// Makes and wires a plugin as the loader does. `parameters` is YAML. Errors are fatal.
  template <class T>
  T& make(const plugin::Descriptor& descriptor, std::string_view parameters = "",
          std::string_view name = "") {
    auto made = try_make(descriptor, parameters, name);
    if (!made) check_failed(made.error().message.c_str(), __FILE__, __LINE__);
    plugins_.push_back(std::move(made->plugin));
    auto* plugin = dynamic_cast<T*>(plugins_.back().get());
    CHECK(plugin != nullptr);
    if (auto* wired = dynamic_cast<Wired*>(plugins_.back().get())) {
      wiring.begin(*wired);
      wired->wire(wiring);
    }
    return *plugin;
  }

  Result<plugin::Made> try_make(const plugin::Descriptor& descriptor,
                                std::string_view parameters = "", std::string_view name = "") {
    const plugin::Registry registry({descriptor});
    const plugin::Context with{name.empty() ? descriptor.type : name, state, registry_, clock};
    if (parameters.empty()) return registry.make(descriptor, with, nullptr);
    LLMD_TRY_ASSIGN(const codec::Node node, codec::parse_yaml(parameters, "test.yaml"));
    return registry.make(descriptor, with, &node);
  }

  /// The column of attribute T as produced by `producer`, to be filled by the test.
  template <class T>
  std::span<T> provide(std::string_view producer) {
    auto& fake = make<FakeProducer<T>>(
        plugin::describe<FakeProducer<T>>({.type = "fake", .kind = "producer"}), "", producer);
    return context.write(fake.column);
  }

  /// The request's value of an attribute, by its full key.
  template <class T>
  void provide_value(const std::string& key, T value) {
    struct Somebody final : Wired {};
    plugins_.push_back(std::make_unique<Somebody>());
    wiring.begin(*plugins_.back());
    context.set(wiring.produces_value<T>(key), value);
  }

  /// What `scorer` says of all candidates, unclamped.
  std::vector<double> scores(const Scorer& scorer) {
    std::vector<double> out(context.candidates.size());
    const auto all = everyone();
    scorer.score(context, all, out);
    return out;
  }

  std::vector<uint32_t> filtered(const Filter& filter) {
    auto selected = everyone();
    selected.resize(filter.filter(context, selected));
    return selected;
  }

  std::vector<uint32_t> picks(const Picker& picker, const std::vector<double>& totals) {
    const auto all = everyone();
    std::vector<uint32_t> picked(all.size());
    picked.resize(picker.pick(context, all, totals, picked));
    return picked;
  }

  /// Sets result `profile` to one target and makes it the primary one.
  void choose(uint16_t profile, uint32_t target, bool primary = true) {
    auto targets = arena.array<uint32_t>(1);
    targets[0] = target;
    context.results[profile] = {.ran = true, .targets = targets};
    if (primary) context.primary = profile;
  }

  /// Tells the plugins made so far that endpoint i is there, or is gone.
  void join(size_t i) {
    for (const auto& listener : wiring.listeners()) listener->on_added(endpoints[i]);
  }
  void leave(size_t i) {
    for (const auto& listener : wiring.listeners()) listener->on_removed(endpoints[i]);
  }

  std::vector<uint32_t> everyone() const {
    std::vector<uint32_t> all(context.candidates.size());
    std::iota(all.begin(), all.end(), 0u);
    return all;
  }

  metric::Registry& metric_registry() { return registry_; }

 private:
  metric::Registry registry_{1};  // outlives threads that count

 public:
  static constexpr size_t kSlotsMax = 64;
  static constexpr size_t kProfilesMax = 4;

  Arena arena;
  Rng rng{1};
  ManualClock clock;
  plugin::StateStore state;
  Wiring wiring{{"default", "prefill"}};
  std::vector<fleet::EndpointPtr> endpoints;
  std::vector<fleet::EndpointMetrics> metrics;  // copied into each fresh request
  RequestContext context{arena, rng, clock};
  Nanos slept{0};  // that a plugin last asked to wait

 private:
  void add_endpoint(Labels labels) {
    std::ranges::sort(labels);
    const size_t i = endpoints.size();
    fleet::EndpointSpec spec{
        .name = "e" + std::to_string(i),
        .address = "10.0." + std::to_string(i / 250) + "." + std::to_string(i % 250),
        .port = 8000,
        .labels = std::move(labels)};
    endpoints.push_back(
        std::make_shared<fleet::Endpoint>(std::move(spec), static_cast<uint32_t>(i), i + 1));
    metrics.emplace_back();
  }

  std::vector<std::unique_ptr<plugin::Plugin>> plugins_;
};

}  // namespace llmd::schedule::testing
