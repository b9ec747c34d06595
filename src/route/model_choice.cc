#include "model_choice.h"

#include "head_values.h"

#include "base/text.h"

#include <string>

namespace llmd::route {

ModelChoice choose_model(const request::Objects* objects, HeaderView headers,
                         std::string_view incoming, Rng& rng) {
  if (objects)
    if (const auto [rule, rewrite] = objects->rule_for(incoming); rule)
      return {request::choose_target(*rule, rng), rewrite};
  const auto asked = either(headers, "x-llm-d-model-name-rewrite", "x-gateway-model-name-rewrite");
  return {asked.empty() ? incoming : asked, {}};
}

Splice model_splice(const request::RequestView& view, std::string_view body, std::string_view model,
                    Arena& arena) {
  if (view.model_is_text && view.model_value) return {*view.model_value, arena.copy(model)};
  std::string value = "\"";
  append_json_escaped(value, model);
  value += '"';
  if (view.model_value) return {*view.model_value, arena.copy(value)};
  const size_t inside = body.find('{') + 1;
  return {{inside, inside}, arena.copy("\"model\":" + value + ',')};
}

}  // namespace llmd::route
