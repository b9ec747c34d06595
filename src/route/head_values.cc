#include "head_values.h"

#include "base/text.h"
#include "route/request_id.h"

namespace llmd::route {

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
