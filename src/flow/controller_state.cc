#include "base/text.h"
#include "flow/controller.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>

namespace llmd::flow {
namespace {

/// Flows that a dump lists per band, those with most requests first.
constexpr size_t kFlowsShown = 100;

using Out = std::back_insert_iterator<std::string>;

std::string_view why_not(double saturation, double ceiling, double above) {
  if (saturation < std::min(ceiling, above)) return "open";
  return saturation >= above && ceiling > above ? "a higher band is shut" : "pool is full for it";
}

/// Seconds; null when not known.
std::string wait_of(Nanos wait) {
  return wait > Nanos(0) ? fmt::format("{:.3f}", seconds(wait)) : "null";
}

void print_flows(std::string& text, const Band& band, const DrainRate& rate, int64_t above,
                 TimePoint now) {
  std::vector<const Flow*> flows;
  for (const auto& [id, flow] : band.flows)
    if (flow->waiting()) flows.push_back(flow.get());
  const size_t shown = std::min(flows.size(), kFlowsShown);
  std::ranges::partial_sort(
      flows, flows.begin() + static_cast<ptrdiff_t>(shown), [](const Flow* a, const Flow* b) {
        return a->queue.size() != b->queue.size() ? a->queue.size() > b->queue.size()
                                                  : a->id < b->id;
      });
  text += R"("flows":[)";
  for (size_t i = 0; i < shown; ++i) {
    const Flow& flow = *flows[i];
    text += i == 0 ? R"({"id":")" : R"(,{"id":")";
    append_json_escaped(text, flow.id);
    // By turns: each flow goes as far as this one until it is through.
    const int64_t share =
        std::min(band.waiting.tokens, flow.tokens * static_cast<int64_t>(band.active));
    fmt::format_to(Out(text),
                   R"(","waiting":{},"bytes":{},"tokens":{},"oldestSeconds":{:.3f},)"
                   R"("expectedWaitSeconds":{}}})",
                   flow.queue.size(), flow.bytes, flow.tokens, seconds(now - flow.head().enqueued),
                   wait_of(rate.time_for(above + share)));
  }
  fmt::format_to(Out(text), R"(],"activeFlows":{},"flowsShown":{})", band.active, shown);
}

}  // namespace

std::string Controller::dump_state() {
  const TimePoint now = clock_.now();
  gate_.refresh(now);
  const Gate::Reading reading = gate_.reading();
  const Regime regime = gate_.regime();
  const MutexLock lock(mutex_);
  std::string text = fmt::format(
      R"({{"saturation":{:.4f},"reserved":{:.4f},"poolEmpty":{},"regimeSeconds":{:.3f},)"
      R"("waiting":{},"bytes":{},"tokens":{},"tokensPerSecond":{:.1f},"bands":[)",
      reading.saturation, static_cast<double>(reading.reserved) / static_cast<double>(Gate::kUnit),
      regime.empty, seconds(now - regime.since), queues_.waiting().requests,
      queues_.waiting().bytes, queues_.waiting().tokens, rate_.per_second());
  int64_t above = 0;
  double lowest = std::numeric_limits<double>::infinity();
  bool first = true;
  for (const auto& band : queues_.bands()) {
    const auto at =
        std::ranges::find(reading.ceilings, band->priority(), &std::pair<int32_t, double>::first);
    const double ceiling = at == reading.ceilings.end() ? 1.0 : at->second;
    fmt::format_to(Out(text),
                   R"({}{{"priority":{},"ceiling":{:.4f},"state":"{}","waiting":{},"bytes":{},)"
                   R"("tokens":{},)",
                   std::exchange(first, false) ? "" : ",", band->priority(), ceiling,
                   regime.empty ? "pool is empty" : why_not(reading.saturation, ceiling, lowest),
                   band->waiting.requests, band->waiting.bytes, band->waiting.tokens);
    print_flows(text, *band, rate_, above, now);
    text += '}';
    above += band->waiting.tokens;
    lowest = std::min(lowest, ceiling);
  }
  return text += "]}";
}

}  // namespace llmd::flow
