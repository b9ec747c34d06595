#include "admin.h"

#include "base/text.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace llmd::sim {
namespace {

using nlohmann::json;

/// The texts that an option's setter reads, or nothing for a value of another kind.
std::optional<std::vector<std::string>> value_texts(const json& value, const Option& option) {
  std::vector<std::string> texts;
  if (value.is_array()) {
    for (const json& item : value) {
      if (!item.is_string()) return std::nullopt;
      texts.push_back(item.get<std::string>());
    }
  } else if (value.is_string()) {
    texts.push_back(value.get<std::string>());
  } else if (value.is_number() || value.is_boolean()) {
    texts.push_back(value.dump());
    if (option.is_duration && value.is_number_integer()) texts.back() += "ns";
  } else {
    return std::nullopt;
  }
  return texts;
}

}  // namespace

std::string show_config(const ServerConfig& config, std::string_view address) {
  std::string out = "{";
  for (const Option& option : options()) {
    if (!option.show) continue;
    out += fmt::format("{}\"{}\":{}", out.size() > 1 ? "," : "", option.name, option.show(config));
  }
  out += ",\"ip\":\"";
  append_json_escaped(out, address);
  out += "\",\"display-model\":\"";
  append_json_escaped(out, config.display_model());
  return out + "\"}";
}

std::optional<ApiError> update_config(ServerConfig& config, std::string_view body) {
  json update;
  if (auto error = parse_object(body, update)) return error;
  ServerConfig changed = config;
  for (const auto& [name, value] : update.items()) {
    const Option* option = find_option(name);
    if (!option || !option->admin)
      return ApiError{400, fmt::format("field '{}' is not admin-configurable", name)};
    if (value.is_null()) continue;
    const auto texts = value_texts(value, *option);
    if (!texts || (texts->size() != 1 && option->shape != Option::Shape::kMany))
      return ApiError{400, fmt::format("field '{}' has a value of the wrong kind", name)};
    if (auto set = option->set(changed, *texts); !set)
      return ApiError{400, fmt::format("field '{}': {}", name, set.error().message)};
  }
  if (auto valid = validate(changed); !valid) return ApiError{400, valid.error().message};
  config = std::move(changed);
  return std::nullopt;
}

}  // namespace llmd::sim
