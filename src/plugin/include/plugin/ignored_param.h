#pragma once

#include "plugin/params.h"

#include <string_view>

namespace llmd::plugin {

/// A deprecated parameter of type T that is checked and has no effect.
template <class P, class T>
Param<P> ignored(std::string_view name) {
  struct Nothing {
    T value{};
  };
  auto read = field(name, &Nothing::value, "", "Has no effect.").deprecated();
  Param<P> param;
  param.info = read.info;
  param.set = [set = read.set](P&, const codec::Node& node) {
    Nothing nothing;
    return set(nothing, node);
  };
  param.print = [print = read.print](const P&) { return print(Nothing{}); };
  return param;
}

}  // namespace llmd::plugin
