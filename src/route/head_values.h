#pragma once

#include "base/headers.h"
#include "request/objects.h"
#include "schedule/request_context.h"

#include <string_view>

namespace llmd::route {

/// The target without its query.
inline std::string_view path_of(std::string_view target) {
  return target.substr(0, target.find('?'));
}

/// The value of the newer of two header names; a present but empty new name hides the old one.
inline std::string_view either(HeaderView headers, std::string_view name,
                               std::string_view old_name) {
  const auto value = headers.find(name);
  return value ? *value : headers.get(old_name);
}

/// Sets what a request's head says of it: path, fairness id, priority and id. False: it had no id
/// that can be kept, and got one of ours. `objects` may be null.
bool read_head(schedule::RequestContext& c, std::string_view target, HeaderView headers,
               const request::Objects* objects);

}  // namespace llmd::route
