#include "program_services.h"

#include "flow/policies.h"
#include "plugin/registry.h"

#include <algorithm>
#include <string>
#include <vector>

namespace llmd::plugins {
namespace {

using flow::Flow;

struct Params {
  std::string strategy = "las";
  int64_t eviction_ttl = 3600;
  int64_t eviction_sweep = 300;
  double weight_service = 0.8;
  double weight_wait = 0.2;
  int64_t half_life = 60;
};

const plugin::Params<Params>& table() {
  static const plugin::Params<Params> params = {
      plugin::field("strategy", &Params::strategy, "", "How programs are ranked.").one_of({"las"}),
      plugin::field("evictionTtlSeconds", &Params::eviction_ttl, "s",
                    "After how long without a request a program is forgotten.")
          .min(0),
      plugin::field("evictionSweepSeconds", &Params::eviction_sweep, "s",
                    "How often programs to forget are looked for.")
          .positive(),
      plugin::field("lasWeightService", &Params::weight_service, "",
                    "Weight of having been served little.")
          .min(0),
      plugin::field("lasWeightHeadWait", &Params::weight_wait, "",
                    "Weight of the time that the first request has waited.")
          .min(0),
      plugin::field("lasHalfLifeSeconds", &Params::half_life, "s",
                    "In what time half of a service is forgotten.")
          .positive(),
  };
  return params;
}

/// (value - least) / (most - least); one half where all are equal.
struct Scale {
  double least = std::numeric_limits<double>::infinity();
  double most = -least;

  void see(double value) {
    least = std::min(least, value);
    most = std::max(most, value);
  }
  double of(double value) const { return most > least ? (value - least) / (most - least) : 0.5; }
};

/// Least attained service: the program that has been given least and has waited longest goes.
/// Cost of a pick: two passes over the flows that wait.
class ProgramPicker final : public flow::FlowPicker {
 public:
  ProgramPicker(const Params& params, ProgramServices& programs)
      : params_(params), programs_(programs) {}

  void add(Flow& flow) override {
    if (!flow.memory) flow.memory = programs_.find_or_add(flow.id);
    flow.rank = static_cast<uint32_t>(flows_.size());
    flows_.push_back(&flow);
  }
  void remove(Flow& flow) override {
    flows_.back()->rank = flow.rank;
    flows_[flow.rank] = flows_.back();
    flows_.pop_back();
  }

  Flow* pick(TimePoint now) override {
    Scale service, wait;
    for (const Flow* flow : flows_) {
      service.see(service_of(*flow));
      wait.see(wait_of(*flow, now));
    }
    Flow* best = nullptr;
    double best_score = 0;
    for (Flow* flow : flows_) {
      const double score = params_.weight_service * (1 - service.of(service_of(*flow))) +
                           params_.weight_wait * wait.of(wait_of(*flow, now));
      if (best &&
          (score < best_score || (score == best_score && best->head_key() < flow->head_key())))
        continue;
      best = flow;
      best_score = score;
    }
    return best;
  }

 private:
  static double service_of(const Flow& flow) {
    return static_cast<const Program*>(flow.memory.get())->service();
  }
  static double wait_of(const Flow& flow, TimePoint now) {
    return millis(now - flow.head().enqueued);
  }

  const Params params_;
  ProgramServices& programs_;
  std::vector<Flow*> flows_;
};

class ProgramAwareFairness final : public flow::FairnessPolicy,
                                   public schedule::PreRequest,
                                   public schedule::ResponseHook {
 public:
  ProgramAwareFairness(Params params, const plugin::Context& context)
      : params_(std::move(params)),
        programs_(
            context.state.get<ProgramServices>(context.name, [] { return new ProgramServices; })) {}

  std::unique_ptr<flow::FlowPicker> make_picker() const override {
    return std::make_unique<ProgramPicker>(params_, *programs_);
  }

  Status pre_request(schedule::RequestContext& context) const override {
    const TimePoint now = context.clock.now();
    programs_->sweep(now, std::chrono::seconds(params_.eviction_sweep),
                     std::chrono::seconds(params_.eviction_ttl));
    programs_->find_or_add(context.fairness_id)->begin(now - context.received);
    return {};
  }

  void on_end(schedule::RequestContext& context, schedule::EndCause,
              const request::Usage& usage) const override {
    constexpr int64_t kCompletionWeight = 2;
    programs_->find_or_add(context.fairness_id)
        ->end(
            static_cast<double>(usage.prompt_tokens + kCompletionWeight * usage.completion_tokens),
            context.clock.now(), std::chrono::seconds(params_.half_life));
  }

  std::string dump_state() const override { return programs_->dump(); }

 private:
  const Params params_;
  const std::shared_ptr<ProgramServices> programs_;
};

}  // namespace

const plugin::Descriptor& program_aware_fairness() {
  static const auto descriptor = plugin::describe<ProgramAwareFairness>(
      {.type = "program-aware-fairness",
       .kind = "fairness policy",
       .summary = "The tenant goes that has been given the fewest tokens of late and whose first "
                  "request has waited longest."},
      table());
  return descriptor;
}

}  // namespace llmd::plugins
