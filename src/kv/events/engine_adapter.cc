#include "kv_events/engine_adapter.h"

#include "base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

namespace llmd::kv_events {

extern const EngineAdapter kVllmAdapter;
extern const EngineAdapter kSglangAdapter;

namespace {

constexpr std::array kAdapters = {&kVllmAdapter, &kSglangAdapter};

}  // namespace

std::span<const EngineAdapter* const> adapters() {
  return kAdapters;
}

Result<const EngineAdapter*> find_adapter(std::string_view name) {
  if (name.empty()) return kAdapters.front();
  std::vector<std::string_view> names;
  for (const EngineAdapter* adapter : kAdapters) {
    if (adapter->name == name) return adapter;
    names.push_back(adapter->name);
  }
  return fail(Code::kBadRequest, fmt::format("'{}' is not one of '{}'{}", name,
                                             fmt::join(names, "', '"), suggestion(name, names)));
}

}  // namespace llmd::kv_events
