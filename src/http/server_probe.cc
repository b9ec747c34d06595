#include "http/server_probe.h"

#include <string_view>

namespace llmd::http {

ServerProbe::ServerProbe(metric::Registry& registry) {
  constexpr std::array<std::string_view, 12> kNames = {"connections",
                                                       "connections_per_peer",
                                                       "header_list",
                                                       "body",
                                                       "buffered_bytes",
                                                       "header_timeout",
                                                       "body_idle_timeout",
                                                       "request_timeout",
                                                       "write_timeout",
                                                       "streams",
                                                       "resets",
                                                       "control_frames"};
  auto& family = registry.family({"llmd_client_limits_total",
                                  metric::Kind::kCounter,
                                  "Times a client met a limit of the server.",
                                  {"limit"},
                                  {},
                                  {}});
  for (size_t i = 0; i < counters_.size(); ++i)
    counters_[i] = family.counter(std::array<std::string_view, 1>{kNames[i]});
}

}  // namespace llmd::http
