#include "bench/open_loop.h"
#include "bench/stats.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace llmd::bench {

std::string open_loop_table(const OpenLoopResult& r) {
  std::string out;
  const auto times = [&](std::string_view name, const std::vector<double>& ms) {
    if (ms.empty()) return;
    fmt::format_to(std::back_inserter(out),
                   "  {:<6} P50 {:>9.1f}   P95 {:>9.1f}   P99 {:>9.1f}   mean {:>9.1f} ms\n", name,
                   percentile(ms, 50), percentile(ms, 95), percentile(ms, 99), mean(ms));
  };
  const double span = std::max(r.seconds, 1e-9);
  fmt::format_to(
      std::back_inserter(out),
      "  {} sent in {:.1f} s ({:.1f}/s): {} ok, {} refused, {} broken, {} timed out, {} not sent\n",
      r.sent, r.seconds, static_cast<double>(r.sent) / span, r.ok, r.refused, r.broken, r.timed_out,
      r.not_sent);
  for (const auto& [why, count] : r.why)
    fmt::format_to(std::back_inserter(out), "    {} x {}\n", count, why);
  fmt::format_to(std::back_inserter(out), "  {:.1f} output tokens/s\n",
                 static_cast<double>(r.output_tokens) / span);
  if (r.prompt_tokens > 0)
    fmt::format_to(
        std::back_inserter(out), "  {} prompt tokens, {:.1f} % of them from caches\n",
        r.prompt_tokens,
        100 * static_cast<double>(r.cached_tokens) / static_cast<double>(r.prompt_tokens));
  times("TTFT", r.ttft_ms);
  times("TPOT", r.tpot_ms);
  times("e2e", r.e2e_ms);
  return out;
}

}  // namespace llmd::bench
