#pragma once

#include "base/result.h"
#include "codec/node.h"
#include "plugin/param_values.h"

#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>

/// Strict, case-sensitive decoding of a document's envelope. Every error is "FILE:LINE: PATH:
/// what".
namespace llmd::config {

/// Takes over one value; `path` is where it stands, as "plugins[0].name".
using Read = std::function<Status(const codec::Node& node, const std::string& path)>;

struct Field {
  std::string_view name;
  Read read;
};

/// An error about `node`. `path` may be empty: the document itself.
std::unexpected<Error> error_at(const codec::Node& node, const std::string& path,
                                std::string_view what);

/// Reads a map: unknown members are errors, null ones count as absent.
Status decode(const codec::Node& node, const std::string& path,
              std::initializer_list<Field> fields);

/// A list, each of whose items `item` takes over.
Read each(Read item);

/// A scalar, by the rules of plugin parameters.
template <class T>
Read into(T& value) {
  return [&value](const codec::Node& node, const std::string& path) -> Status {
    if (auto status = plugin::values::read(node, value); !status)
      return error_at(node, path, status.error().message);
    return {};
  };
}

}  // namespace llmd::config
