#include "decode.h"

#include "base/text.h"

#include <vector>

namespace llmd::config {

using codec::Node;

std::unexpected<Error> error_at(const Node& node, const std::string& path, std::string_view what) {
  std::string message = node.where() + ": ";
  if (!path.empty()) message += path + ": ";
  return fail(Code::kBadRequest, message.append(what));
}

Status decode(const Node& node, const std::string& path, std::initializer_list<Field> fields) {
  if (node.type != Node::Type::kMap)
    return error_at(node, path, "must be a map, not a " + std::string(codec::type_name(node.type)));
  for (const auto& [name, value] : node.members) {
    const Field* known = nullptr;
    for (const auto& field : fields)
      if (field.name == name) known = &field;
    if (!known) {
      std::vector<std::string_view> names;
      for (const auto& field : fields) names.push_back(field.name);
      return error_at(value, path, "unknown field '" + name + "'" + suggestion(name, names));
    }
    if (value.is_null()) continue;
    LLMD_TRY(known->read(value, path.empty() ? name : path + "." + name));
  }
  return {};
}

Read each(Read item) {
  return [item = std::move(item)](const Node& node, const std::string& path) -> Status {
    if (node.type != Node::Type::kList)
      return error_at(node, path,
                      "must be a list, not a " + std::string(codec::type_name(node.type)));
    for (size_t i = 0; i < node.items.size(); ++i)
      LLMD_TRY(item(node.items[i], path + "[" + std::to_string(i) + "]"));
    return {};
  };
}

}  // namespace llmd::config
