#pragma once

#include "subset.h"

#include "route/retry.h"
#include "schedule/pipeline.h"
#include "schedule/request_context.h"

#include <span>
#include <utility>

namespace llmd::route {

/// The endpoints that one request may go to, try by try: those of a snapshot that the proxy's
/// subset holds and that have not failed the request, ejected ones only once it is widened. Its
/// room is in the request's arena. Threading: one loop.
class CandidateSearch {
 public:
  Subset subset;

  /// Makes the endpoints of `pool` that qualify, with their metrics as they are now, the candidates
  /// of `c`. Asked by admission while it decides, after it, and for each further try.
  std::span<const schedule::Candidate> locate(schedule::RequestContext& c,
                                              const fleet::SnapshotPtr& pool,
                                              const Attempts& attempts);
  /// Any endpoint that answers other requests than inferences, as a list of one; empty: there is
  /// none. Widens the search where it has to.
  std::span<fleet::Endpoint* const> any(schedule::RequestContext& c, const fleet::SnapshotPtr& pool,
                                        const Attempts& attempts);
  /// Lets ejected endpoints be candidates. False: none was left out.
  bool widen() { return leaves_out_ejected_ && !std::exchange(ejected_too_, true); }

 private:
  bool ejected_too_ = false;
  bool leaves_out_ejected_ = false;
  std::span<schedule::Candidate> room_;
};

/// What the primary profile chose, the preferred first.
std::span<fleet::Endpoint* const> targets(const schedule::RequestContext& c);
/// Makes the candidate at `host_port` the target of the primary profile; null: there is none.
fleet::Endpoint* retarget(schedule::RequestContext& c, std::string_view host_port);

/// Whether the chosen endpoint has something of the prompt.
bool is_cached(const schedule::RequestContext& c, const schedule::Pipeline& pipeline);

}  // namespace llmd::route
