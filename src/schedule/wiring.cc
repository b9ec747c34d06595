#include "schedule/wiring.h"

#include "base/check.h"

#include <algorithm>

namespace llmd::schedule {

uint16_t Wiring::add(Edge::Kind kind, std::string key, std::type_index type) {
  CHECK(current_ != nullptr);
  const auto known = std::ranges::find(keys_, key);
  const auto column = static_cast<uint16_t>(known - keys_.begin());
  if (known == keys_.end()) keys_.push_back(key);
  edges_.push_back({.plugin = current_, .key = std::move(key), .type = type, .kind = kind});
  return column;
}

uint16_t Wiring::find_produced(std::type_index type, std::string_view preferred) const {
  const Edge* found = nullptr;
  for (const auto& edge : edges_)
    if (edge.kind == Edge::Kind::kProduces && edge.type == type &&
        (!found || edge.key == preferred))
      found = &edge;
  return found ? static_cast<uint16_t>(std::ranges::find(keys_, found->key) - keys_.begin())
               : Consumed<int>{}.column;
}

void Wiring::reject_reference(std::string_view name, std::string_view parameter,
                              std::string_view kind, bool exists) {
  status_ = fail(Code::kBadRequest, "parameter '" + std::string(parameter) +
                                        "': " + (exists ? "'" : "no plugin is named '") +
                                        std::string(name) + "'" +
                                        (exists ? " is no " + std::string(kind) : ""));
}

uint16_t Wiring::profile(std::string_view name) const {
  const auto at = std::ranges::find(profiles_, name);
  return at == profiles_.end() ? UINT16_MAX : static_cast<uint16_t>(at - profiles_.begin());
}

}  // namespace llmd::schedule
