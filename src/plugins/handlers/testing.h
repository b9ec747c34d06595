#pragma once

#include "schedule/testing.h"

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace llmd::plugins::testing {

/// Runs a profile handler's rounds over profiles whose picks the test gives.
class Rounds {
 public:
  /// By profile: the candidates it picks, the preferred first; none: it fails.
  using Picks = std::map<std::string, std::vector<uint32_t>>;

  Rounds(schedule::testing::Harness& harness, schedule::ProfileHandler& handler,
         std::vector<std::string> profiles)
      : harness_(harness), handler_(handler), profiles_(std::move(profiles)) {
    CHECK(handler.bind(profiles_));
  }

  /// The profiles that ran, in order.
  std::vector<std::string> run(const Picks& picks) {
    std::vector<std::string> ran;
    std::vector<uint16_t> wanted(profiles_.size());
    auto& context = harness_.context;
    while (const size_t count = handler_.next(context, wanted)) {
      CHECK(ran.size() + count <= profiles_.size());
      for (size_t i = 0; i < count; ++i) {
        const auto& name = profiles_[wanted[i]];
        ran.push_back(name);
        const auto& targets = picks.at(name);
        auto copy = harness_.arena.array<uint32_t>(targets.size());
        std::ranges::copy(targets, copy.begin());
        context.results[wanted[i]] = {.ran = true, .failed = targets.empty(), .targets = copy};
      }
    }
    return ran;
  }

  /// Of the request that was run: the primary profile, or the error's text.
  std::string finish() {
    const auto status = handler_.finish(harness_.context);
    return status ? profiles_[harness_.context.primary] : status.error().message;
  }

  /// The header that the plugins set on the forwarded request, or nothing.
  std::optional<std::string> header(std::string_view name) const {
    for (const auto& field : harness_.context.request_headers.fields())
      if (field.name == name) return std::string(field.value);
    return std::nullopt;
  }

 private:
  schedule::testing::Harness& harness_;
  schedule::ProfileHandler& handler_;
  const std::vector<std::string> profiles_;
};

}  // namespace llmd::plugins::testing
