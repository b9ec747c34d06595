#include "base/check.h"
#include "schedule/decision_notes.h"
#include "schedule/pipeline.h"
#include "schedule/stopwatch.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

namespace llmd::schedule {
namespace {

constexpr std::string_view kNothingLeft = "no endpoints available for the given request";
constexpr std::string_view kDrained = "rejected-saturated";

using Pair = double __attribute__((vector_size(16)));

/// Scores below 0 and NaN count as 0, those above 1 as 1.
Pair clamp01(Pair scores) {
  constexpr Pair kZeros = {0, 0};
  constexpr Pair kOnes = {1, 1};
  const Pair above = scores > kZeros ? scores : kZeros;
  return above < kOnes ? above : kOnes;
}

/// Adds each score, clamped and weighted, to its total.
void add_weighted(std::span<const double> scores, double weight, std::span<double> totals) {
  const Pair weights = {weight, weight};
  size_t i = 0;
  for (; i + 2 <= scores.size(); i += 2) {
    Pair score;
    Pair total;
    std::memcpy(&score, &scores[i], sizeof score);
    std::memcpy(&total, &totals[i], sizeof total);
    total += clamp01(score) * weights;
    std::memcpy(&totals[i], &total, sizeof total);
  }
  if (i < scores.size()) totals[i] += clamp01(Pair{scores[i], 0})[0] * weight;
}

std::unexpected<Error> untyped(std::string_view why) {
  return fail(Code::kResourceExhausted, "failed to find target endpoint: " + std::string(why));
}

/// Runs the profiles of one request.
class Run {
 public:
  Run(RequestContext& context, const Pipeline& pipeline) : context_(context), pipeline_(pipeline) {}

  Status operator()() {
    LLMD_TRY(rounds());
    if (auto status = pipeline_.handler.plugin->finish(context_); !status)
      return fail(explain(std::move(status).error()));
    const bool has_target = context_.primary < context_.results.size() &&
                            !context_.results[context_.primary].targets.empty();
    if (!SOFT_CHECK(has_target)) return untyped("the profile handler chose no target");
    return {};
  }

 private:
  /// Every round must run a profile that has not run yet, so there are at most as many as profiles.
  Status rounds() {
    const auto wanted = context_.arena.array<uint16_t>(pipeline_.profiles.size());
    size_t ran = 0;
    for (;;) {
      const size_t count = pipeline_.handler.plugin->next(context_, wanted);
      const double seconds = observed(pipeline_.handler.duration);
      if (context_.notes) context_.notes->handler += static_cast<float>(seconds);
      if (count == 0) break;
      const size_t before = ran;
      for (const uint16_t index : wanted.first(count)) {
        CHECK(index < pipeline_.profiles.size());
        if (context_.results[index].ran) continue;
        run_profile(index);
        ++ran;
      }
      if (ran == before)
        return untyped("profile handler '" + pipeline_.handler.plugin->name() +
                       "' asks for nothing but profiles that have run");
    }
    if (ran == 0) return untyped("no profile ran");
    return {};
  }

  void run_profile(uint16_t index) {
    const Profile& profile = pipeline_.profiles[index];
    ProfileResult& result = context_.results[index];
    take_notes(profile, index);
    trace::Stage stage(context_.trace, "run_scheduler_profile", trace::Scope::kScheduling);
    stage.set("llm_d.epp.scheduling.profile.name", profile.name);
    name_request(stage);
    result.ran = true;
    const auto selected = filter(profile);
    result.failed = selected.empty();
    if (result.failed) return;
    result.scored = selected;
    result.totals = score(profile, selected);

    result.targets = pick(profile, selected, result.totals);
    result.failed = result.targets.empty();
  }

  /// Points notes_ at the profile's notes, with room for its filters and costs.
  void take_notes(const Profile& profile, uint16_t index) {
    if (!context_.notes) return;
    notes_ = &context_.notes->profiles[index];
    costs_ = context_.arena.array<float>(profile.filters.size() + profile.scorers.size() + 1);
    notes_->seconds = costs_;
    if (!profile.filters.empty())
      notes_->passed = context_.arena.array<uint16_t>(context_.candidates.size());
  }

  /// Seconds of the step that ends now, which is `duration`'s.
  double observed(const metric::Histogram& duration) {
    const double seconds = stopwatch_.lap();
    duration.observe(seconds);
    return seconds;
  }

  /// The same for a step of the profile, which is noted.
  void end_step(const metric::Histogram& duration) {
    const double seconds = observed(duration);
    if (!notes_) return;
    costs_[0] = static_cast<float>(seconds);
    costs_ = costs_.subspan(1);
  }

  std::span<const uint32_t> pick(const Profile& profile, std::span<const uint32_t> selected,
                                 std::span<const double> totals) {
    trace::Stage stage(context_.trace, "pick_endpoints", trace::Scope::kScheduling);
    stage.set("llm_d.epp.picker.candidate_endpoints", selected.size());
    const auto picked = context_.arena.room<uint32_t>(selected.size());
    const size_t count = profile.picker.plugin->pick(context_, selected, totals, picked);
    end_step(profile.picker.duration);
    if (notes_) notes_->turn = std::exchange(context_.notes->turn, {});
    CHECK(count <= picked.size());
    if (stage && count > 0)
      stage.set("llm_d.epp.picker.top_endpoints",
                context_.candidates[picked[0]].endpoint->host_port());
    return picked.first(count);
  }

  void name_request(trace::Stage& stage) const {
    stage.set("gen_ai.request.model", context_.target_model);
    stage.set("gen_ai.request.id", context_.request_id);
  }

  std::span<uint32_t> filter(const Profile& profile) {
    trace::Stage stage(context_.trace, "filter_endpoints", trace::Scope::kScheduling);
    stage.set("llm_d.epp.filter.candidate_endpoints", context_.candidates.size());
    name_request(stage);
    auto selected = context_.arena.room<uint32_t>(context_.candidates.size());
    std::iota(selected.begin(), selected.end(), 0u);
    for (const auto& step : profile.filters) {
      if (selected.empty()) break;
      const size_t left = step.plugin->filter(context_, selected);
      end_step(step.duration);
      CHECK(left <= selected.size());
      selected = selected.first(left);
      if (notes_)
        for (const uint32_t survivor : selected) ++notes_->passed[survivor];
    }
    stage.set("llm_d.epp.filter.filtered_endpoints", selected.size());
    return selected;
  }

  /// In order of the profile, in double precision, so that sums are the same everywhere.
  std::span<const double> score(const Profile& profile, std::span<const uint32_t> selected) {
    trace::Stage stage(context_.trace, "llm_d.epp.scoring", trace::Scope::kScheduling);
    stage.set("llm_d.epp.scorer.count", profile.scorers.size());
    stage.set("llm_d.epp.scoring.candidate_endpoints", selected.size());
    const auto totals = context_.arena.array<double>(selected.size());
    if (notes_)
      notes_->scores = context_.arena.array<double>(profile.scorers.size() * selected.size());
    for (size_t i = 0; i < profile.scorers.size(); ++i) {
      const auto& step = profile.scorers[i];
      const auto scores = room_for_scores(i, selected.size());
      trace::Stage scorer(context_.trace, "llm_d.epp.scorer.", step.plugin->type(),
                          trace::Scope::kPlugins);
      step.plugin->score(context_, selected, scores);
      if (scorer) describe(scorer, step, scores);
      add_weighted(scores, step.weight, totals);
      end_step(step.duration);
    }
    return totals;
  }

  /// Zeros for the answer of one scorer: where it is kept, or where the last one's was.
  std::span<double> room_for_scores(size_t scorer, size_t count) {
    if (notes_) return notes_->scores.subspan(scorer * count, count);
    if (scratch_.empty()) scratch_ = context_.arena.array<double>(context_.candidates.size());
    const auto scores = scratch_.first(count);
    std::ranges::fill(scores, 0.0);
    return scores;
  }

  static void describe(trace::Stage& stage, const auto& step, std::span<const double> scores) {
    const double sum = std::accumulate(scores.begin(), scores.end(), 0.0);
    stage.set("llm_d.epp.scorer.type", step.plugin->type());
    stage.set("llm_d.epp.scorer.name", step.plugin->name());
    stage.set("llm_d.epp.scorer.weight", step.weight);
    stage.set("llm_d.epp.scorer.candidate_endpoints", scores.size());
    stage.set("llm_d.epp.scorer.endpoints_scored", scores.size());
    stage.set("llm_d.epp.scorer.score.max", *std::ranges::max_element(scores));
    stage.set("llm_d.epp.scorer.score.avg", sum / static_cast<double>(scores.size()));
  }

  /// A handler's typed error stands. Else a drained profile explains it, else the handler's words.
  Error explain(Error error) const {
    if (error.code != Code::kUnknown) return error;
    for (const auto& result : context_.results)
      if (result.failed)
        return {.code = Code::kResourceExhausted,
                .message = std::string(kNothingLeft),
                .drop_reason = std::string(kDrained)};
    return untyped(error.message).error();
  }

  RequestContext& context_;
  const Pipeline& pipeline_;
  Stopwatch stopwatch_;
  std::span<double> scratch_;      // one scorer's answer at a time
  ProfileNotes* notes_ = nullptr;  // of the profile that runs; null: none are taken
  std::span<float> costs_;         // in them, of the steps to come
};

}  // namespace

void prepare(RequestContext& context, const Pipeline& pipeline) {
  context.columns = context.arena.array<void*>(pipeline.columns);
  context.slots = context.arena.array<void*>(pipeline.slots);
  context.results = context.arena.array<ProfileResult>(pipeline.profiles.size());
  context.primary = UINT16_MAX;
  context.request_headers = HeaderEdits(context.arena);
  context.response_headers = HeaderEdits(context.arena);
  context.forward_port = 0;
  if (!context.notes) return;
  context.notes->producers = context.arena.array<float>(pipeline.producers.size());
  context.notes->profiles = context.arena.array<ProfileNotes>(pipeline.profiles.size());
}

void HeaderEdits::set(std::string_view name, std::string_view value) {
  for (auto& field : fields_.view())
    if (field.name == name) {
      field.value = value;
      return;
    }
  fields_.push_back({name, value});
}

Status run_scheduler(RequestContext& context, const Pipeline& pipeline) {
  return Run(context, pipeline)();
}

}  // namespace llmd::schedule
