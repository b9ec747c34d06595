#include "page_reader.h"

#include "base/text.h"
#include "codec/prometheus_scan.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

namespace llmd::fleet {
namespace {

/// The best sample so far of one series that is asked for.
struct Wanted {
  SeriesSpec spec;
  bool largest = false;   // the largest sample counts, else the newest
  std::string own_label;  // as AttributeSeries
  bool found = false;
  double value = 0;
  double timestamp = 0;  // 0: none given
  std::string labels;    // kept only for the series whose labels carry numbers
};

bool matches(const SeriesSpec& spec, std::string_view labels) {
  return std::ranges::all_of(spec.labels, [&](const auto& want) {
    const auto value = codec::prometheus_label(labels, want.first);
    return value && *value == want.second;
  });
}

/// A count as the page gives it; a negative, infinite or absurd one counts as nothing.
int64_t count_of(double v) {
  constexpr double kMax = 1e15;
  return std::isfinite(v) && v >= 0 && v <= kMax ? static_cast<int64_t>(v) : 0;
}

/// More than any cache has; what is above counts as not reported.
constexpr int64_t kBlockTokensMax = 1'000'000;
constexpr int64_t kBlocksMax = 1'000'000'000;

/// The parts of "a, b": trimmed, empty ones left out.
std::vector<std::string> names_of(std::string_view list) {
  std::vector<std::string> names;
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    if (const auto name = trim(list.substr(0, comma)); !name.empty()) names.emplace_back(name);
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return names;
}

}  // namespace

struct PageReader::State final : codec::PrometheusSink {
  enum Number : size_t {
    kQueued,
    kRunning,
    kKvUsage,
    kLora,
    kCacheInfo,
    kBlockSize,
    kNumBlocks,
    kFirstCustom
  };

  explicit State(const EngineMetrics& engine)
      : block_size_label(engine.block_size_label),
        num_blocks_label(engine.num_blocks_label),
        wanted(all_of(engine)),
        names(families(wanted)) {
    for (const auto& [key, spec] : engine.custom) custom_keys.push_back(key);
  }
  State(std::span<const AttributeSeries> a, std::string_view name)
      : attributes(a.begin(), a.end()),
        own_name(name),
        wanted(all_of(attributes)),
        names(families(wanted)) {}

  static std::vector<Wanted> all_of(const EngineMetrics& engine) {
    std::vector<Wanted> wanted = {{engine.queued},    {engine.running},    {engine.kv_usage},
                                  {engine.lora},      {engine.cache_info}, {engine.block_size},
                                  {engine.num_blocks}};
    // A LoRA series carries its time as its value, and stale ones stay on the page: the newest is
    // true.
    wanted[kLora].largest = true;
    for (const auto& [key, spec] : engine.custom) wanted.push_back({spec});
    return wanted;
  }
  static std::vector<Wanted> all_of(std::span<const AttributeSeries> attributes) {
    std::vector<Wanted> wanted;
    for (const auto& a : attributes) wanted.push_back({a.series, a.largest, a.own_label});
    return wanted;
  }

  static codec::PrometheusNames families(std::span<const Wanted> wanted) {
    std::vector<std::string_view> names;
    for (const auto& w : wanted) names.push_back(w.spec.family);
    return codec::PrometheusNames(names);
  }

  /// Several numbers may share a family, and then `index` is the first of them.
  void sample(size_t index, const codec::PrometheusSample& s) override {
    const auto& family = wanted[index].spec.family;
    for (auto& w : wanted)
      if (w.spec.family == family && matches(w.spec, s.labels) && is_own(w, s.labels)) take(w, s);
  }

  bool is_own(const Wanted& w, std::string_view labels) const {
    if (w.own_label.empty() || own_name.empty()) return true;
    return codec::prometheus_label(labels, w.own_label).value_or(own_name) == own_name;
  }

  void take(Wanted& w, const codec::PrometheusSample& s) {
    const double timestamp = parse_double(s.timestamp).value_or(0);
    const bool better =
        w.largest ? s.value > w.value || std::isnan(w.value) : timestamp > w.timestamp;
    if (w.found && !better) return;
    w.found = true;
    w.value = s.value;
    w.timestamp = timestamp;
    if (!attributes.empty()) return;
    if (&w == &wanted[kLora] || &w == &wanted[kCacheInfo]) w.labels.assign(s.labels);
  }

  std::vector<std::string> adapters(std::string_view label) const {
    return names_of(codec::prometheus_label(wanted[kLora].labels, label).value_or(""));
  }

  /// The custom numbers in the order of the configuration, with what the page lacks as it was.
  void update(std::vector<std::pair<std::string, double>>& custom) const {
    std::vector<std::pair<std::string, double>> now;
    for (size_t i = 0; i < custom_keys.size(); ++i) {
      const Wanted& w = wanted[kFirstCustom + i];
      const auto before =
          std::ranges::find(custom, custom_keys[i], &std::pair<std::string, double>::first);
      if (w.found)
        now.emplace_back(custom_keys[i], w.value);
      else if (before != custom.end())
        now.push_back(*before);
    }
    custom = std::move(now);
  }

  /// Sets the attributes that the page has; those of other pages stay.
  void update_attributes(std::vector<std::pair<std::string, double>>& all) const {
    for (size_t i = 0; i < attributes.size(); ++i) {
      if (!wanted[i].found || !std::isfinite(wanted[i].value)) continue;
      const double value = wanted[i].value * attributes[i].factor;
      const auto before =
          std::ranges::find(all, attributes[i].key, &std::pair<std::string, double>::first);
      if (before == all.end())
        all.emplace_back(attributes[i].key, value);
      else
        before->second = value;
    }
  }

  int64_t label_number(Number n, std::string_view label) const {
    const auto text = codec::prometheus_label(wanted[n].labels, label);
    return text ? std::max<int64_t>(0, parse_int(*text).value_or(0)) : 0;
  }

  const std::string block_size_label, num_blocks_label;
  std::vector<std::string> custom_keys;
  const std::vector<AttributeSeries> attributes;  // not empty: nothing else is read
  const std::string own_name;
  std::vector<Wanted> wanted;  // by attribute; else by Number, then the custom ones
  const codec::PrometheusNames names;
  std::optional<codec::PrometheusScanner> scanner;  // of the open page
};

PageReader::PageReader(const EngineMetrics& engine) : state_(std::make_unique<State>(engine)) {}
PageReader::PageReader(std::span<const AttributeSeries> attributes, std::string_view own_name)
    : state_(std::make_unique<State>(attributes, own_name)) {}
PageReader::PageReader(PageReader&&) noexcept = default;
PageReader::~PageReader() = default;

void PageReader::begin() {
  for (auto& w : state_->wanted) w.found = false;
  state_->scanner.emplace(state_->names, *state_);
}

void PageReader::feed(std::string_view chunk) {
  state_->scanner->feed(chunk);
}

Status PageReader::finish(EndpointMetrics& m, EngineDetails& details) {
  auto& s = *state_;
  s.scanner->finish();
  const auto& w = s.wanted;
  if (std::ranges::none_of(w, &Wanted::found))
    return fail(Code::kModelServerError, s.attributes.empty()
                                             ? "the page has none of the engine's metrics"
                                             : "the page has none of the metrics looked for");
  if (!s.attributes.empty()) {
    s.update_attributes(details.attributes);
    return {};
  }
  if (w[State::kQueued].found) m.waiting_queue_size = count_of(w[State::kQueued].value);
  if (w[State::kRunning].found) m.running_requests_size = count_of(w[State::kRunning].value);
  if (w[State::kKvUsage].found)
    m.kv_cache_usage = std::isfinite(w[State::kKvUsage].value) ? w[State::kKvUsage].value : 0;
  if (w[State::kCacheInfo].found) {
    m.cache_block_size = s.label_number(State::kCacheInfo, s.block_size_label);
    m.cache_num_blocks = s.label_number(State::kCacheInfo, s.num_blocks_label);
  }
  if (w[State::kBlockSize].found) m.cache_block_size = count_of(w[State::kBlockSize].value);
  if (w[State::kNumBlocks].found) m.cache_num_blocks = count_of(w[State::kNumBlocks].value);
  if (m.cache_block_size > kBlockTokensMax) m.cache_block_size = 0;
  if (m.cache_num_blocks > kBlocksMax) m.cache_num_blocks = 0;
  m.kv_cache_max_tokens = m.cache_block_size * m.cache_num_blocks;
  if (w[State::kLora].found) {
    if (const auto most = s.label_number(State::kLora, "max_lora"); most > 0)
      m.max_active_models = most;
    details.running_adapters = s.adapters("running_lora_adapters");
    details.waiting_adapters = s.adapters("waiting_lora_adapters");
  }
  s.update(details.custom);
  return {};
}

}  // namespace llmd::fleet
