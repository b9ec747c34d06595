#pragma once

#include "base/headers.h"
#include "base/text.h"
#include "request/objects.h"
#include "schedule/request_context.h"

#include <algorithm>
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

/// Whether the client wants an answer only where its prompt is cached ("Prefer: if-available").
/// Preferences are separated by commas; their parameters do not count.
inline bool wants_cached(HeaderView headers) {
  for (const auto& field : headers) {
    if (!equals_ignore_case(field.name, "prefer")) continue;
    for (auto rest = field.value; !rest.empty();) {
      const auto one = rest.substr(0, rest.find(','));
      if (equals_ignore_case(trim(one.substr(0, one.find(';'))), "if-available")) return true;
      rest.remove_prefix(std::min(rest.size(), one.size() + 1));
    }
  }
  return false;
}

/// What is set on the request's head on its way to an endpoint: headers of plugins, an id of ours,
/// the trace context.
std::span<const HeaderField> forwarded_headers(schedule::RequestContext& c, bool made_request_id,
                                               std::string_view traceparent);

/// Sets what a request's head says of it: path, fairness id, priority and id. False: it had no id
/// that can be kept, and got one of ours. `objects` may be null.
bool read_head(schedule::RequestContext& c, std::string_view target, HeaderView headers,
               const request::Objects* objects);

}  // namespace llmd::route
