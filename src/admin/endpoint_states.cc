#include "endpoint_states.h"

#include "base/text.h"

#include <fmt/format.h>

#include <iterator>

namespace llmd::admin {

std::string endpoint_states(const fleet::Snapshot& pool, TimePoint now) {
  std::string out = R"({"endpoints":[)";
  for (const auto& endpoint : pool.endpoints) {
    const auto& health = endpoint->health;
    out += out.ends_with('}') ? R"(,{"endpoint":")" : R"({"endpoint":")";
    append_json_escaped(out, endpoint->id());
    fmt::format_to(std::back_inserter(out),
                   R"(","address":"{}","generation":{},"openRequests":{},"health":"{}",)"
                   R"("ejectionsInARow":{},"secondsToProbe":{:.3f}}})",
                   endpoint->host_port(), endpoint->generation(),
                   endpoint->open_requests.load(std::memory_order_relaxed),
                   fleet::health_name(health.state(now)), health.ejections(),
                   seconds(health.wait(now)));
  }
  return out + "]}";
}

}  // namespace llmd::admin
