#include "candidate_search.h"

namespace llmd::route {

using schedule::Candidate;
using schedule::RequestContext;

std::span<const Candidate> CandidateSearch::locate(RequestContext& c,
                                                   const fleet::SnapshotPtr& pool,
                                                   const Attempts& attempts) {
  c.snapshot = pool;
  const auto& endpoints = pool->endpoints;
  if (room_.size() < endpoints.size()) room_ = c.arena.room<Candidate>(endpoints.size());
  const Choice choice(*pool, attempts, ejected_too_, c.clock);
  size_t n = 0;
  for (const auto& endpoint : endpoints)
    if (choice.includes(*endpoint) && subset.includes(*endpoint))
      room_[n++] = {endpoint.get(), endpoint->metrics.load()};
  leaves_out_ejected_ = choice.leaves_out_ejected();
  c.candidates = room_.first(n);
  return c.candidates;
}

std::span<fleet::Endpoint* const> CandidateSearch::any(RequestContext& c,
                                                       const fleet::SnapshotPtr& pool,
                                                       const Attempts& attempts) {
  c.snapshot = pool;
  const auto eligible = c.arena.array<fleet::Endpoint*>(pool->endpoints.size());
  size_t n = 0;
  do {
    const Choice choice(*pool, attempts, ejected_too_, c.clock);
    for (const auto& endpoint : pool->endpoints)
      if (choice.includes(*endpoint) && serves_clients(*endpoint) && subset.includes(*endpoint))
        eligible[n++] = endpoint.get();
    leaves_out_ejected_ = choice.leaves_out_ejected();
  } while (n == 0 && widen());
  return n == 0 ? std::span<fleet::Endpoint*>{} : eligible.subspan(c.rng.below(n), 1);
}

std::span<fleet::Endpoint* const> targets(const RequestContext& c) {
  const auto chosen = c.results[c.primary].targets;
  const auto list = c.arena.array<fleet::Endpoint*>(chosen.size());
  for (size_t i = 0; i < list.size(); ++i) list[i] = c.candidates[chosen[i]].endpoint;
  return list;
}

fleet::Endpoint* retarget(RequestContext& c, std::string_view host_port) {
  const auto found = std::ranges::find_if(
      c.candidates, [&](const auto& one) { return one.endpoint->host_port() == host_port; });
  if (found == c.candidates.end()) return nullptr;
  const auto index = static_cast<uint32_t>(found - c.candidates.begin());
  c.results[c.primary].targets = {c.arena.make<uint32_t>(index), 1};
  return found->endpoint;
}

bool is_cached(const RequestContext& c, const schedule::Pipeline& pipeline) {
  const auto matches = c.read(pipeline.cached);
  return !matches.empty() && matches[c.results[c.primary].targets[0]].match_blocks > 0;
}

}  // namespace llmd::route
