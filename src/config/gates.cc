#include "gates.h"

#include "base/text.h"

#include <optional>

namespace llmd::config {
namespace {

std::optional<bool> truth(std::string_view text) {
  const std::string word = to_lower(trim(text));
  if (word == "1" || word == "t" || word == "true") return true;
  if (word == "0" || word == "f" || word == "false") return false;
  return std::nullopt;
}

}  // namespace

Gates default_gates() {
  return {{"flowControl", false}, {"haPopulateNonLeaderDatastore", true}};
}

Status apply_gate(std::string_view entry, Gates& gates) {
  const size_t equals = entry.find('=');
  const std::string_view name = entry.substr(0, equals);
  std::optional<bool> value = true;
  if (equals != std::string_view::npos) {
    const std::string_view rest = entry.substr(equals + 1);
    value = truth(rest.substr(0, rest.find('=')));
  }
  if (!value)
    return fail(Code::kBadRequest,
                "'" + std::string(entry) + "': the value of a feature gate is true or false");
  std::vector<std::string_view> names;
  for (auto& [known, on] : gates) {
    if (known == name) {
      on = *value;
      return {};
    }
    names.push_back(known);
  }
  return fail(Code::kBadRequest,
              "unknown feature gate '" + std::string(name) + "'" + suggestion(name, names));
}

}  // namespace llmd::config
