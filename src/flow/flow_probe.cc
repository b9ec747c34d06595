#include "flow/flow_probe.h"

#include "base/check.h"
#include "base/keyed_hash.h"
#include "metric/buckets.h"

#include <boost/unordered/unordered_flat_map.hpp>
#include <fmt/format.h>

namespace llmd::flow {
namespace {

using metric::Kind;
using Labels = std::vector<std::string_view>;

constexpr size_t kLabelValuesMax = 1000;
constexpr size_t kCachedSeriesMax = 4096;
constexpr size_t kCellsMax = 1024;
constexpr std::string_view kOverflow = "other";

/// llm_d_epp_flow_control_NAME; with twin, also under its deprecated prefix with the same labels.
metric::Family& family(metric::Registry& registry, std::string_view name, Kind kind,
                       std::string_view help, const Labels& labels, std::span<const double> buckets,
                       bool twin) {
  const std::string canonical = fmt::format("llm_d_epp_flow_control_{}", name);
  const std::string deprecated = fmt::format("inference_extension_flow_control_{}", name);
  metric::Definition definition{canonical, kind, help, labels, buckets, {}};
  if (twin) {
    metric::Twin& old = definition.twins.emplace_back();
    old.name = deprecated;
    for (const auto label : labels) old.labels.emplace_back(label, label);
  }
  return registry.family(definition);
}

struct Digits {
  explicit Digits(int32_t n) : text(fmt::format_int(n).str()) {}
  std::string text;
};

}  // namespace

struct FlowProbe::Families {
  metric::Family& size;
  metric::Family& bytes;
  metric::Family& enqueue;
  metric::Family& duration;
  metric::Family& requests;
  metric::LabelGuard models{kLabelValuesMax};
  metric::LabelGuard fairness{kLabelValuesMax};

  explicit Families(metric::Registry& r)
      : size(family(r, "queue_size", Kind::kGauge, "Requests that wait in flow control.",
                    queue_labels(), {}, true)),
        bytes(family(r, "queue_bytes", Kind::kGauge,
                     "Bytes of the bodies of requests that wait in flow control.", queue_labels(),
                     {}, true)),
        enqueue(family(r, "request_enqueue_duration_seconds", Kind::kHistogram,
                       "Time until a request is in its queue, or is found to need none.",
                       {"fairness_id", "priority", "outcome"}, metric::buckets::kFast, true)),
        duration(family(r, "request_queue_duration_seconds", Kind::kHistogram,
                        "Time from a request's arrival in flow control to its outcome.",
                        {"fairness_id", "priority", "outcome", "inference_pool", "model_name",
                         "target_model_name"},
                        metric::buckets::kQDur, true)),
        requests(family(r, "requests_total", Kind::kCounter,
                        "Requests that flow control has let in or refused.",
                        {"outcome", "priority", "inference_pool"}, {}, false)) {}

  static Labels queue_labels() {
    return {"fairness_id", "priority", "inference_pool", "model_name", "target_model_name"};
  }
};

struct FlowProbe::Cache {
  std::string key;
  uint64_t epoch = 0;
  boost::unordered_flat_map<std::string, FlowSeries, KeyedHash> series;
};

struct FlowProbe::Tenants {
  Mutex mutex;
  boost::unordered_flat_map<std::string, std::shared_ptr<Tenant>, KeyedHash, std::equal_to<>> all
      LLMD_GUARDED_BY(mutex);

  std::shared_ptr<Tenant> get(std::string_view label) {
    const MutexLock lock(mutex);
    auto& slot = all[std::string(label)];
    if (!slot) slot = std::make_shared<Tenant>();
    return slot;
  }
};

FlowProbe::FlowProbe(metric::Registry& registry, std::string pool)
    : cycle(family(registry, "dispatch_cycle_duration_seconds", Kind::kHistogram,
                   "Time of one turn of the dispatcher.", {}, metric::buckets::kFast, true)
                .histogram({})),
      pool_(std::move(pool)),
      families_(std::make_unique<Families>(registry)),
      caches_(kCellsMax),
      tenants_(std::make_unique<Tenants>()) {}

FlowProbe::~FlowProbe() = default;

FlowSeries FlowProbe::make(const schedule::RequestContext& context) {
  auto& f = *families_;
  const Digits priority(context.priority);
  const std::string_view fairness = f.fairness.admit(context.fairness_id);
  const std::array<std::string_view, 5> queue = {
      fairness, priority.text, pool_, f.models.admit(context.request ? context.request->model : ""),
      f.models.admit(context.target_model)};
  const std::array<std::string_view, 3> enqueue = {fairness, priority.text,
                                                   outcome_name(Outcome::kNotYetFinalized)};
  FlowSeries series;
  series.queue_size = f.size.gauge(queue);
  series.queue_bytes = f.bytes.gauge(queue);
  series.enqueue_admitted = f.enqueue.histogram(enqueue);
  series.tenant = tenants_->get(fairness);
  add_outcome(series, context, Outcome::kDispatched);
  return series;
}

void FlowProbe::add_outcome(FlowSeries& series, const schedule::RequestContext& context,
                            Outcome outcome) {
  auto& f = *families_;
  const Digits priority(context.priority);
  const std::string_view name = outcome_name(outcome);
  const std::array<std::string_view, 6> duration = {
      f.fairness.admit(context.fairness_id),
      priority.text,
      name,
      pool_,
      f.models.admit(context.request ? context.request->model : ""),
      f.models.admit(context.target_model)};
  const std::array<std::string_view, 3> total = {name, priority.text, pool_};
  const auto i = static_cast<size_t>(outcome);
  series.queue_duration[i] = f.duration.histogram(duration);
  series.requests[i] = f.requests.counter(total);
}

FlowSeries& FlowProbe::series(const schedule::RequestContext& context) {
  const size_t cell = metric::thread_cell();
  CHECK(cell < kCellsMax);
  if (!caches_[cell]) caches_[cell] = std::make_unique<Cache>();
  Cache& cache = *caches_[cell];
  if (const auto epoch = epoch_.load(std::memory_order_acquire); cache.epoch != epoch) {
    cache.series.clear();
    cache.epoch = epoch;
  }
  auto& key = cache.key;
  key.assign(context.request ? context.request->model : "").push_back('\0');
  key.append(context.target_model).push_back('\0');
  key.append(context.fairness_id).push_back('\0');
  key.append(reinterpret_cast<const char*>(&context.priority), sizeof context.priority);
  if (const auto it = cache.series.find(key); it != cache.series.end()) return it->second;
  if (cache.series.size() >= kCachedSeriesMax) cache.series.clear();
  return cache.series.emplace(key, make(context)).first->second;
}

void FlowProbe::arrive(const schedule::RequestContext& context, TimePoint now) {
  constexpr int64_t kCoarse = 1'000'000'000;  // so that busy tenants do not write at every request
  auto& used = series(context).tenant->used;
  const int64_t at = now.time_since_epoch().count();
  if (at - used.load(std::memory_order_relaxed) > kCoarse)
    used.store(at, std::memory_order_relaxed);
}

void FlowProbe::wait(const schedule::RequestContext& context, int sign) {
  auto& of = series(context);
  of.queue_size.add(sign);
  of.queue_bytes.add(sign * static_cast<double>(context.request_bytes));
  of.tenant->waiting.fetch_add(sign, std::memory_order_relaxed);
}

void FlowProbe::end(const schedule::RequestContext& context, Outcome outcome, Nanos waited,
                    Nanos enqueuing) {
  auto& of = series(context);
  const auto i = static_cast<size_t>(outcome);
  if (outcome != Outcome::kDispatched) {
    // Refusals are few: their handles are looked up anew.
    add_outcome(of, context, outcome);
    const Digits priority(context.priority);
    const std::array<std::string_view, 3> labels = {families_->fairness.admit(context.fairness_id),
                                                    priority.text, outcome_name(outcome)};
    families_->enqueue.histogram(labels).observe(seconds(enqueuing));
  } else {
    of.enqueue_admitted.observe(seconds(enqueuing));
  }
  of.queue_duration[i].observe(seconds(waited));
  of.requests[i].add();
}

void FlowProbe::collect(TimePoint now, Nanos idle) {
  std::vector<std::string> gone;
  {
    const MutexLock lock(tenants_->mutex);
    boost::unordered::erase_if(tenants_->all, [&](const auto& entry) {
      const auto& [label, tenant] = entry;
      const int64_t age = now.time_since_epoch().count() - tenant->used.load();
      const bool drop = label != kOverflow && tenant->waiting.load() == 0 && age >= idle.count();
      if (drop) gone.push_back(label);
      return drop;
    });
  }
  if (gone.empty()) return;
  for (auto* of : {&families_->size, &families_->bytes, &families_->enqueue, &families_->duration})
    for (const auto& label : gone) of->forget("fairness_id", label);
  epoch_.fetch_add(1, std::memory_order_release);
}

}  // namespace llmd::flow
