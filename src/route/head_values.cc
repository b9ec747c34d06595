#include "head_values.h"

#include "base/text.h"
#include "route/request_id.h"

namespace llmd::route {

std::span<const HeaderField> forwarded_headers(schedule::RequestContext& c, bool made_request_id,
                                               std::string_view traceparent) {
  const auto by_plugins = c.request_headers.fields();
  auto set = c.arena.array<HeaderField>(2 + by_plugins.size());
  std::ranges::copy(by_plugins, set.begin());
  size_t n = by_plugins.size();
  if (made_request_id) set[n++] = {"x-request-id", c.request_id};
  if (!traceparent.empty()) set[n++] = {"traceparent", traceparent};
  return set.first(n);
}

bool read_head(schedule::RequestContext& c, std::string_view target, HeaderView headers,
               const request::Objects* objects) {
  c.path = path_of(target);
  c.headers = headers;
  c.fairness_id =
      either(headers, "x-llm-d-inference-fairness-id", "x-gateway-inference-fairness-id");
  if (c.fairness_id.empty()) c.fairness_id = schedule::kDefaultFairnessId;
  if (objects)
    c.priority = objects->priority(
        either(headers, "x-llm-d-inference-objective", "x-gateway-inference-objective"));
  c.request_id = headers.get("x-request-id");
  if (is_request_id(c.request_id)) return true;
  c.request_id = c.arena.copy(uuid_v4(c.rng.next(), c.rng.next()));
  return false;
}

}  // namespace llmd::route
