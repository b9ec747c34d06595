#include "decision_states.h"

#include "plugin_states.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>

namespace llmd::admin {
namespace {

using Json = nlohmann::ordered_json;
using schedule::Decision;
using schedule::Outline;

constexpr std::array<const char*, schedule::kStages> kStageNames = {
    "parse", "admit", "locate", "produce", "schedule", "commit"};

/// A duration as it is shown: microseconds to a tenth.
double micros(double seconds) {
  return std::round(seconds * 1e7) / 10;
}

/// The part of `names` at `i`; "" where the outline lacks it.
std::string name_at(const std::vector<std::string>& names, size_t i) {
  return i < names.size() ? names[i] : std::string();
}

std::string_view outcome_name(const Decision& d) {
  if (d.target) return d.decided ? "sent" : "served";
  if (d.status == 0) return "left";
  return d.decided ? "refused" : "answered";
}

/// One profile of a decision, and what there is to say about its pick.
class ProfileView {
 public:
  ProfileView(const Decision& decision, const Decision::Profile& profile,
              const Outline::Profile& outline)
      : decision_(decision), profile_(profile), outline_(outline) {
    for (const double total : profile.totals) best_ = std::max(best_, total);
    for (size_t i = 0; i < profile.totals.size(); ++i) {
      if (profile.totals[i] != best_) continue;
      ++equals_;
      if (picked_at(i)) rank_ = equals_;
    }
  }

  Json json(bool primary) const {
    return {{"name", outline_.name},
            {"primary", primary},
            {"ran", profile_.ran},
            {"failed", profile_.failed},
            {"why", why()},
            {"filters", filters()},
            {"scorers", scorers()},
            {"picker", step(outline_.picker, outline_.filters.size() + outline_.scorers.size())},
            {"endpoints", endpoints()},
            {"picked", picked()},
            {"tie", tie()}};
  }

  std::string why() const {
    if (!profile_.ran) return "did not run";
    if (profile_.scored.empty()) return "no endpoint was left" + emptied_by();
    if (profile_.targets.empty()) return fmt::format("{} picked none", outline_.picker);
    if (profile_.scored.size() == 1) return "the only endpoint left";
    const std::string total = fmt::format("{:.6g}", best_);
    if (rank_ == 0)
      return fmt::format("{} chose it; the highest total is {}", outline_.picker, total);
    if (equals_ == 1) return fmt::format("it has the highest total, {}", total);
    if (profile_.turn.taken == 0)
      return fmt::format("{} chose it of {} with the highest total, {}", outline_.picker, equals_,
                         total);
    return fmt::format("{} share the highest total, {}; its turn among them was longest ago",
                       equals_, total);
  }

 private:
  bool picked_at(size_t scored) const {
    return !profile_.targets.empty() && profile_.scored[scored] == profile_.targets[0];
  }

  const std::string& endpoint(uint32_t candidate) const {
    static const std::string kUnknown = "?";
    const auto& notes = decision_.candidate_notes;
    return candidate < notes.size() ? notes[candidate].endpoint->id() : kUnknown;
  }

  double seconds(size_t step) const {
    return step < profile_.seconds.size() ? profile_.seconds[step] : 0;
  }
  Json step(const std::string& name, size_t index) const {
    return {{"name", name}, {"microseconds", micros(seconds(index))}};
  }

  /// The filter that `candidate` did not pass; the number of filters when it passed all.
  size_t stopped_at(size_t candidate) const {
    return candidate < profile_.passed.size() ? profile_.passed[candidate]
                                              : outline_.filters.size();
  }

  std::string emptied_by() const {
    size_t last = 0;
    for (const uint16_t passed : profile_.passed) last = std::max<size_t>(last, passed);
    return profile_.passed.empty() ? "" : " after " + name_at(outline_.filters, last);
  }

  Json filters() const {
    Json out = Json::array();
    for (size_t f = 0; f < outline_.filters.size(); ++f) {
      Json removed = Json::array();
      for (size_t c = 0; c < profile_.passed.size(); ++c)
        if (stopped_at(c) == f) removed.push_back(endpoint(static_cast<uint32_t>(c)));
      Json filter = step(outline_.filters[f], f);
      filter["removed"] = std::move(removed);
      out.push_back(std::move(filter));
    }
    return out;
  }

  Json scorers() const {
    Json out = Json::array();
    for (size_t s = 0; s < outline_.scorers.size(); ++s) {
      Json scorer = step(outline_.scorers[s].name, outline_.filters.size() + s);
      scorer["weight"] = outline_.scorers[s].weight;
      out.push_back(std::move(scorer));
    }
    return out;
  }

  /// The scored ones, the highest total first.
  Json endpoints() const {
    std::vector<size_t> order(profile_.scored.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::ranges::stable_sort(order, std::ranges::greater(),
                             [&](size_t i) { return profile_.totals[i]; });
    Json out = Json::array();
    for (const size_t i : order) {
      Json raw = Json::array(), weighted = Json::array();
      for (size_t s = 0; s < outline_.scorers.size(); ++s) {
        const size_t at = s * profile_.scored.size() + i;
        const double score = at < profile_.scores.size() ? profile_.scores[at] : 0;
        raw.push_back(score);
        weighted.push_back(schedule::clamp_score(score) * outline_.scorers[s].weight);
      }
      out.push_back({{"endpoint", endpoint(profile_.scored[i])},
                     {"scores", std::move(raw)},
                     {"weighted", std::move(weighted)},
                     {"total", profile_.totals[i]}});
    }
    return out;
  }

  Json picked() const {
    Json out = Json::array();
    for (const uint32_t target : profile_.targets) out.push_back(endpoint(target));
    return out;
  }

  Json tie() const {
    if (equals_ < 2) return nullptr;
    Json out = {{"equals", equals_}, {"picked", rank_ == 0 ? Json(nullptr) : Json(rank_)}};
    if (profile_.turn.taken == 0) return out;
    out["turn"] = profile_.turn.taken;
    out["turnBefore"] = profile_.turn.before;
    return out;
  }

  const Decision& decision_;
  const Decision::Profile& profile_;
  const Outline::Profile& outline_;
  double best_ = -std::numeric_limits<double>::infinity();
  size_t equals_ = 0;  // that share the best total
  size_t rank_ = 0;    // of the picked one among them, from 1; 0: it is none of them
};

Json stages(const Decision& d) {
  Json out = Json::object();
  for (size_t i = 0; i < schedule::kStages; ++i) out[kStageNames[i]] = micros(d.stages[i]);
  return out;
}

std::string_view why_it_waited(schedule::WaitNote::Why why) {
  constexpr std::array<std::string_view, 8> kTexts = {
      "it did not wait",
      "there was no endpoint",
      "the pool was as full as its band may make it",
      "the pool was too full for a higher band",
      "requests of higher priority waited",
      "requests of its own flow waited",
      "requests of its band waited",
      "others were coming in at the same moment"};
  return kTexts[static_cast<size_t>(why)];
}

/// Thousandths: it is kept as a float.
double rounded(float value) {
  return std::round(static_cast<double>(value) * 1000) / 1000;
}

/// How a request had to wait; null: it did not.
Json wait(const schedule::WaitNote& note) {
  if (note.why == schedule::WaitNote::Why::kNone) return nullptr;
  return {{"why", why_it_waited(note.why)},
          {"aheadInFlow", note.ahead_in_flow},
          {"aheadInBand", note.ahead_in_band},
          {"expectedSeconds", note.expected_s > 0 ? Json(rounded(note.expected_s)) : Json(nullptr)},
          {"saturation", rounded(note.saturation)},
          {"ceiling", rounded(note.ceiling)}};
}

/// What is shown of every decision.
Json facts(const Decision& d, const Clock& clock) {
  const Nanos ago = clock.now() - d.at;
  Json out = {{"requestId", d.request_id},
              {"time", rfc3339_nanos(clock.wall() - ago)},
              {"outcome", outcome_name(d)},
              {"try", d.number},
              {"after", d.after},
              {"path", d.path},
              {"model", d.model},
              {"targetModel", d.target_model},
              {"priority", d.priority},
              {"bodyBytes", d.request_bytes},
              {"candidates", d.candidates},
              {"endpoint", d.target ? Json(d.target->id()) : Json(nullptr)},
              {"address", d.target ? Json(d.target->host_port()) : Json(nullptr)}};
  if (!d.target) {
    out["status"] = d.status;
    out["code"] = code_name(d.code);
    out["error"] = d.error;
    out["dropReason"] = d.drop_reason;
  }
  out["wait"] = wait(d.wait);
  out["microseconds"] = stages(d);
  out["millisecondsSinceHead"] = std::round(millis(d.at - d.received) * 1000) / 1000;
  return out;
}

Json candidates(const Decision& d) {
  Json out = Json::array();
  for (const auto& note : d.candidate_notes) {
    const bool known = note.metrics_age >= 0;
    out.push_back({{"endpoint", note.endpoint->id()},
                   {"address", note.endpoint->host_port()},
                   {"waiting", note.waiting},
                   {"running", note.running},
                   {"kvUsage", std::round(note.kv_usage * 1e4) / 1e4},
                   {"metricsAgeSeconds",
                    known ? Json(std::round(note.metrics_age * 1e3) / 1e3) : Json(nullptr)}});
  }
  return out;
}

Json producers(const Decision& d, const Outline& outline) {
  Json out = Json::array();
  for (size_t i = 0; i < d.producers.size(); ++i) {
    const bool failed = d.producers[i] == schedule::DecisionNotes::kFailed;
    out.push_back({{"name", name_at(outline.producers, i)},
                   {"microseconds", failed ? Json(nullptr) : Json(micros(d.producers[i]))}});
  }
  return out;
}

/// Why a decision without a primary profile fell as it did.
std::string why_without_profile(const Decision& d) {
  if (!d.target) return std::string(d.error);
  if (!d.decided) return "it answers instead, as the proxy says";
  return "a request without a body goes to any endpoint that serves clients";
}

void add_body(Json& out, const Decision& d, const Outline& outline) {
  out["why"] = why_without_profile(d);
  out["cut"] = d.cut;
  if (d.cut || !d.decided) return;
  out["endpoints"] = candidates(d);
  out["producers"] = producers(d, outline);
  out["handler"] = {{"name", outline.handler}, {"microseconds", micros(d.handler)}};
  Json profiles = Json::array();
  for (size_t i = 0; i < std::min(d.profiles.size(), outline.profiles.size()); ++i) {
    const ProfileView view(d, d.profiles[i], outline.profiles[i]);
    if (d.target && i == d.primary) out["why"] = view.why();
    profiles.push_back(view.json(i == d.primary));
  }
  out["profiles"] = std::move(profiles);
}

}  // namespace

std::string decision_states(std::span<const schedule::KeptDecision> decisions, bool whole,
                            const Clock& clock) {
  static const Outline kNone;
  Json list = Json::array();
  for (const auto& kept : decisions) {
    const Decision decision = kept.read();
    Json shown = facts(decision, clock);
    if (whole) add_body(shown, decision, kept.outline ? *kept.outline : kNone);
    list.push_back(std::move(shown));
  }
  return Json{{"decisions", std::move(list)}}.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace llmd::admin
