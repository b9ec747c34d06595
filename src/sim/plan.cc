#include "zmq_address.h"

#include "base/text.h"
#include "sim/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <arpa/inet.h>
#include <map>

namespace llmd::sim {
namespace {

struct Range {
  uint32_t first = 0;
  uint64_t count = 0;  // addresses from `first`; 0: open-ended
};

std::optional<uint32_t> parse_ipv4(std::string_view text) {
  in_addr address;
  if (inet_pton(AF_INET, std::string(text).c_str(), &address) != 1) return std::nullopt;
  return ntohl(address.s_addr);
}

std::string ipv4_text(uint32_t address) {
  return fmt::format("{}.{}.{}.{}", address >> 24, address >> 16 & 255, address >> 8 & 255,
                     address & 255);
}

/// "A", "A-B" or "A/LENGTH"; of a network, its own address and the last one are left out.
Result<Range> parse_range(std::string_view text) {
  const auto bad = [&](std::string_view why) {
    return fail(Code::kBadRequest, fmt::format("address-range: '{}' {}", text, why));
  };
  const size_t mark = text.find_first_of("-/");
  const auto first = parse_ipv4(text.substr(0, mark));
  if (!first) return bad("does not start with an IPv4 address");
  if (mark == text.npos) return Range{*first, 0};
  const std::string_view rest = text.substr(mark + 1);
  if (text[mark] == '-') {
    const auto last = parse_ipv4(rest);
    if (!last || *last < *first) return bad("does not end with a later IPv4 address");
    return Range{*first, uint64_t(*last) - *first + 1};
  }
  const auto length = parse_int(rest);
  if (!length || *length < 8 || *length > 30) return bad("has a prefix length outside [8, 30]");
  const uint64_t size = uint64_t(1) << (32 - *length);
  return Range{static_cast<uint32_t>((*first & ~(size - 1)) + 1), size - 2};
}

/// A YAML double-quoted scalar; JSON's escapes are among YAML's.
std::string json_string(std::string_view text) {
  std::string out = "\"";
  append_json_escaped(out, text);
  return out + '"';
}

/// The address for a server of its own among others: a port that is `offset` further, on the
/// server's address where that is what tells servers apart.
Status place(std::string& endpoint, uint64_t offset, const std::string& address, bool by_address) {
  if (endpoint.empty()) return {};
  LLMD_TRY_ASSIGN(ZmqAddress place, parse_zmq_address(endpoint));
  if (by_address && place.any_host()) place.host = address;
  if (place.port != 0 && place.port + offset > 65535)
    return fail(Code::kBadRequest,
                fmt::format("'{}': port {} is beyond 65535", endpoint, place.port + offset));
  if (place.port != 0) place.port = static_cast<uint16_t>(place.port + offset);
  endpoint = place.text();
  return {};
}

/// `offset` of the server among all that share its address, `rank` among those of one engine: who
/// connects goes to one place whatever server it belongs to.
Status place_events(KvEventsConfig& events, uint64_t offset, uint64_t rank,
                    const std::string& address, bool by_address) {
  LLMD_TRY_ASSIGN(const ZmqAddress given, parse_zmq_address(events.endpoint));
  events.bind = events.bind || given.any_host();
  if (auto placed = place(events.endpoint, events.bind ? offset : rank, address, by_address);
      !placed)
    return fail(std::move(placed.error()).in("zmq-endpoint"));
  if (auto placed = place(events.replay_endpoint, offset, address, by_address); !placed)
    return fail(std::move(placed.error()).in("kv-events-replay-endpoint"));
  return {};
}

}  // namespace

Result<std::vector<EndpointPlan>> plan_endpoints(const Settings& settings) {
  std::vector<EndpointPlan> plans;
  std::map<std::string, uint32_t> numbers;  // the next number of a name prefix
  uint32_t next_port = 0;                   // after the last group on consecutive ports
  for (const EndpointGroup& group : settings.groups) {
    const ServerConfig& server = group.server;
    const bool single_rank = server.data_parallel_rank >= 0;
    const uint32_t ranks = single_rank ? 1 : server.data_parallel_size;
    uint64_t servers = group.count;
    Range range;
    const bool by_address = !group.address_range.empty();
    if (by_address) {
      LLMD_TRY_ASSIGN(range, parse_range(group.address_range));
      if (servers == 0) servers = range.count ? range.count : 1;
      if (range.count && servers > range.count)
        return fail(Code::kBadRequest,
                    fmt::format("address-range: '{}' has {} addresses for {} servers",
                                group.address_range, range.count, servers));
    }
    const uint32_t base = group.port_base                ? *group.port_base
                          : by_address || next_port == 0 ? server.port
                                                         : next_port;
    const uint64_t last = base + (by_address ? 0 : (servers - 1) * ranks) + ranks - 1;
    if (base != 0 && last > 65535)
      return fail(Code::kBadRequest,
                  fmt::format("port: {} servers from {} end beyond 65535", servers * ranks, base));
    for (uint64_t i = 0; i < servers; ++i) {
      for (uint32_t rank = 0; rank < ranks; ++rank) {
        EndpointPlan plan;
        plan.name = fmt::format("{}-{}", group.name_prefix, numbers[group.name_prefix]++);
        plan.address = by_address ? ipv4_text(range.first + static_cast<uint32_t>(i)) : server.host;
        const uint64_t offset = by_address ? rank : i * ranks + rank;
        plan.port = base == 0 ? 0 : static_cast<uint16_t>(base + offset);
        plan.labels = group.labels;
        plan.config = server;
        // Request ids derive from seed and port; servers that share a port need seeds of their own.
        if (by_address || base == 0) plan.config.seed += static_cast<int64_t>(plans.size());
        plan.config.data_parallel_rank = single_rank ? server.data_parallel_rank
                                         : ranks > 1 ? static_cast<int32_t>(rank)
                                                     : -1;
        const uint64_t own = single_rank ? static_cast<uint64_t>(server.data_parallel_rank) : rank;
        const uint64_t events_offset = offset + own - rank;
        LLMD_TRY(place_events(plan.config.kv_events, events_offset, own, plan.address, by_address));
        const auto& events = plan.config.kv_events;
        if (events.bind && !events.endpoint.ends_with(":0"))
          plan.events_offset = static_cast<uint32_t>(events_offset);
        plans.push_back(std::move(plan));
      }
    }
    if (!by_address && base != 0) next_port = static_cast<uint32_t>(last) + 1;
  }
  return plans;
}

/// Routers look for the KV events of NAME-rank-N at N ports further than for those of others.
std::string name_in_file(const EndpointPlan& plan) {
  return plan.events_offset == 0 ? plan.name
                                 : fmt::format("{}-rank-{}", plan.name, plan.events_offset);
}

std::string endpoints_file(std::span<const EndpointPlan> plans) {
  std::string text = "endpoints:\n";
  for (const EndpointPlan& plan : plans) {
    const bool any = plan.address == "0.0.0.0";
    text +=
        fmt::format("- name: {}\n  namespace: default\n  address: {}\n  port: \"{}\"\n",
                    json_string(name_in_file(plan)), any ? "127.0.0.1" : plan.address, plan.port);
    if (plan.config.secure()) text += "  scheme: https\n";
    if (plan.labels.empty()) continue;
    text += "  labels:\n";
    for (const auto& [label, value] : plan.labels)
      text += fmt::format("    {}: {}\n", json_string(label), json_string(value));
  }
  return text;
}

}  // namespace llmd::sim
