#pragma once

#include "plugin/params.h"

#include <string_view>

namespace llmd::plugin {

/// A Go duration, or a whole number of nanoseconds.
template <class P>
Param<P> nanoseconds(std::string_view name, Nanos P::* member, std::string_view doc) {
  auto param = field(name, member, "", doc);
  param.set = [read = param.set, member](P& p, const codec::Node& node) -> Status {
    if (node.type != codec::Node::Type::kInt) return read(p, node);
    int64_t count = 0;
    LLMD_TRY(values::read(node, count));
    p.*member = Nanos(count);
    return {};
  };
  return param;
}

}  // namespace llmd::plugin
