#include "kv_shared/entry.h"

#include "base/arena.h"
#include "codec/go_json.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace llmd::kv_shared {

std::string encode(const Entry& entry) {
  Arena arena;
  return fmt::format(
      R"({{"PodIdentifier":{},"DeviceTier":{},"Speculative":{},"HasGroup":{},"GroupIdx":{}}})",
      codec::go_json_string(entry.pod, arena), codec::go_json_string(entry.tier, arena),
      entry.speculative, entry.group.has_value(), entry.group.value_or(0));
}

std::optional<Entry> decode(std::string_view field) {
  const auto json = nlohmann::json::parse(field, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  Entry entry;
  bool fits = true;
  bool has_group = false;
  int64_t group = 0;
  const auto read = [&](const char* name, auto fits_type, auto& out) {
    const auto at = json.find(name);
    if (at == json.end() || at->is_null()) return;
    if (!((*at).*fits_type)())
      fits = false;
    else
      at->get_to(out);
  };
  using Json = nlohmann::json;
  read("PodIdentifier", &Json::is_string, entry.pod);
  read("DeviceTier", &Json::is_string, entry.tier);
  read("Speculative", &Json::is_boolean, entry.speculative);
  read("HasGroup", &Json::is_boolean, has_group);
  read("GroupIdx", &Json::is_number_integer, group);
  if (!fits) return std::nullopt;
  if (has_group) entry.group = group;
  return entry;
}

}  // namespace llmd::kv_shared
