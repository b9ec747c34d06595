#pragma once

#include "base/result.h"
#include "plugin/plugin.h"
#include "schedule/request_context.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// The seams of the framework. A plugin is one class that derives from one or more of these; the
/// loader finds out which. All methods are const: an instance does not change after wire(). What
/// changes lives in the request (columns, slots) or in a StateStore object with its own locking.
/// None of them blocks, does I/O or allocates outside the request's arena.
namespace llmd::schedule {

class Wiring;

/// Base of every plugin below: declares what it reads and writes, once, after construction.
class Wired : public virtual plugin::Plugin {
 public:
  virtual void wire(Wiring&) {}
};

/// Removes candidates. `selected` holds candidate indices in candidate order.
class Filter : public virtual Wired {
 public:
  /// Compacts the survivors to the front, order kept, and returns how many there are. 0 refuses the
  /// request (429).
  virtual size_t filter(RequestContext& context, std::span<uint32_t> selected) const = 0;
};

/// Rates candidates in [0, 1]; outside values are clamped, NaN counts as 0. `scores` is parallel to
/// `selected`, zeroed.
class Scorer : public virtual Wired {
 public:
  virtual void score(RequestContext& context, std::span<const uint32_t> selected,
                     std::span<double> scores) const = 0;
};

/// Orders the best candidates. Writes candidate indices, the preferred first, to the front of
/// `picked` (as long as `selected`) and returns how many. Requires: `selected` is not empty.
class Picker : public virtual Wired {
 public:
  virtual size_t pick(RequestContext& context, std::span<const uint32_t> selected,
                      std::span<const double> totals, std::span<uint32_t> picked) const = 0;
};

/// Says for a profile handler whether a stage of the request runs on an endpoint of its own.
class Decider : public virtual Wired {
 public:
  /// `decode` is the candidate that would decode the request; nothing: that is not known yet.
  virtual bool separates(const RequestContext& context, std::optional<uint32_t> decode) const = 0;
};

/// Decides which profiles run, in rounds, and which result is the primary one.
class ProfileHandler : public virtual Wired {
 public:
  /// Called with the names of all profiles at load; index i of next() means names[i]. An error
  /// stops the load.
  virtual Status bind(std::span<const std::string> profile_names) = 0;
  /// The profile that picks where prompts are processed when that is not where they are decoded.
  virtual std::string_view prefill_profile() const { return "prefill"; }
  /// Appends to `run` the indices of profiles to run now; none ends the loop. `context.results` has
  /// what ran so far.
  virtual size_t next(RequestContext& context, std::span<uint16_t> run) const = 0;
  /// Sets context.primary, or says why there is no target.
  virtual Status finish(RequestContext& context) const = 0;
};

enum class Progress : uint8_t {
  kDone,
  kSuspended,  // the plugin will call the Resume it took from context.suspend(); the step then runs
               // again from there
};

/// Sees a request's head before admission: the place to set values of the whole request from its
/// headers. Runs again before each further try. An error refuses the request.
class RequestHook : public virtual Wired {
 public:
  virtual Status on_request(RequestContext& context) const = 0;
};

/// Computes attributes of the candidates before scheduling. When produce() returned kSuspended and
/// the request is resumed, it is called again and must find its result. A failure is logged and
/// counted; scheduling goes on without.
class Producer : public virtual Wired {
 public:
  virtual Result<Progress> produce(RequestContext& context) const = 0;
  /// How long the request may wait for this producer.
  virtual Nanos deadline() const { return std::chrono::milliseconds(400); }
};

/// Sees the decision before the request leaves: the place to charge ledgers and to update indexes.
class PreRequest : public virtual Wired {
 public:
  virtual Status pre_request(RequestContext& context) const = 0;
};

/// Sees the response go by. on_end() runs exactly once for every request whose pre-request hooks
/// ran.
class ResponseHook : public virtual Wired {
 public:
  /// The head of the answer: the place to set context.response_headers. From now on the primary
  /// profile's target is the endpoint that the proxy in front says has served.
  virtual void on_response_head(RequestContext&) const {}
  virtual void on_first_chunk(RequestContext&) const {}
  virtual void on_end(RequestContext&, EndCause, const request::Usage&) const {}
};

/// Tells the proxy in front about an answer that has been read to its end and whose last bytes are
/// about to go on. Never called where there is no proxy in front (`llmd router`).
class Reporter : public virtual Wired {
 public:
  /// Adds to context.reports.
  virtual void report(RequestContext& context, const request::Usage& usage) const = 0;
};

/// Narrows the endpoints before anything is produced. Each sees the full list; results are
/// intersected. `keep` is parallel to `candidates` and all true on entry.
class Screener : public virtual Wired {
 public:
  virtual Status screen(RequestContext& context, std::span<const Candidate> candidates,
                        std::span<bool> keep) const = 0;
};

/// Last word on a request after its attributes are known. An error's code and drop reason reach the
/// client.
class Admitter : public virtual Wired {
 public:
  virtual Status admit(RequestContext& context) const = 0;
};

/// How full the pool is for these endpoints: 1.0 and above means saturated. No endpoints: 1.0.
class SaturationDetector : public virtual Wired {
 public:
  virtual double saturation(std::span<const Candidate> candidates, TimePoint now) const = 0;
  /// What a request of so many prompt tokens adds to the saturation of `endpoints` endpoints, at
  /// most. Flow control counts it for a request that it has let in and that is in no load yet. 0:
  /// nothing that can be told.
  virtual double step(size_t endpoints, int64_t prompt_tokens) const {
    static_cast<void>(endpoints), static_cast<void>(prompt_tokens);
    return 0;
  }
  /// The saturation for a gate that lets requests in one after the other: counts also those that
  /// were sent and that no metrics show yet.
  virtual double pressure(std::span<const Candidate> candidates, TimePoint now) const {
    return saturation(candidates, now);
  }
  /// Whether the end of a request shows at once, and not with a later scrape.
  virtual bool follows_requests() const { return false; }
};

/// Lets a request in, makes it wait, or refuses it, before endpoints are located. `locate` reads
/// the candidates that the request could use at this moment, and is called only when they are
/// needed.
class Admission {
 public:
  virtual ~Admission() = default;
  /// Asked again when a request that waits has been woken.
  virtual Result<Progress> admit(
      RequestContext& context, const std::function<std::span<const Candidate>()>& locate) const = 0;
  /// A request that was let in shows in the load of an endpoint now, or goes without. At least once
  /// for each; further calls change nothing.
  virtual void settle(RequestContext&) const {}
  /// Scheduling found no room for a request that was let in. True: it waits again, where it was
  /// before, and is woken as after admit().
  virtual bool wait_again(RequestContext&) const { return false; }
  /// A request that waits goes away.
  virtual void leave(RequestContext&, EndCause) const {}
  /// A request has left its endpoint: there may be room.
  virtual void made_room() const {}

  /// The pipeline is in use from now on. `self` keeps it. Threading: a control thread.
  virtual void start(const std::shared_ptr<const void>& self) const { static_cast<void>(self); }
  /// The priorities that objectives give to requests. Threading: a control thread.
  virtual void expect(std::span<const int32_t> priorities) const { static_cast<void>(priorities); }
  /// What waits and why, as a JSON object; "": nothing does here. Threading: any.
  virtual std::string dump_state() const { return {}; }
  /// How long a request may wait before it is refused with rejected-ttl-expired.
  virtual Nanos deadline() const { return Nanos::max(); }
};

}  // namespace llmd::schedule
