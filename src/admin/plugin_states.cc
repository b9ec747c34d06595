#include "plugin_states.h"

#include "base/text.h"

#include <fmt/format.h>

#include <ctime>

namespace llmd::admin {

std::string rfc3339_nanos(WallTime t) {
  const auto nanos = t.time_since_epoch().count();
  const auto whole = static_cast<time_t>(nanos / 1'000'000'000);
  tm parts{};
  gmtime_r(&whole, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:09}Z", parts.tm_year + 1900,
                     parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
                     nanos % 1'000'000'000);
}

std::string plugin_states(const schedule::Pipeline& pipeline, WallTime now) {
  std::string out = fmt::format(R"({{"timestamp":"{}","plugins":{{)", rfc3339_nanos(now));
  const auto quoted = [&out](std::string_view text) {
    out += '"';
    append_json_escaped(out, text);
    out += '"';
  };
  bool first = true;
  for (const auto& p : pipeline.resolved) {
    if (!std::exchange(first, false)) out += ',';
    quoted(p.name);
    out += R"(:{"name":)";
    quoted(p.name);
    out += R"(,"type":)";
    quoted(p.type);
    const std::string state = p.plugin ? p.plugin->dump_state() : std::string();
    if (state.empty())
      out += R"(,"message":"plugin has no state to show"})";
    else
      out.append(R"(,"state":)").append(state).append("}");
  }
  return out += "}}";
}

}  // namespace llmd::admin
