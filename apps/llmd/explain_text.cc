#include "explain_text.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <iterator>
#include <vector>

namespace llmd {
namespace {

using Json = nlohmann::ordered_json;

/// Rows of a profile that are printed.
constexpr size_t kRowsMax = 25;

std::string printable(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) c = '?';
  return text;
}
std::string text_at(const Json& object, const char* key) {
  const Json& value = object.at(key);
  return value.is_null() ? "-"
                         : printable(value.is_string() ? value.get<std::string>() : value.dump());
}
double number_at(const Json& object, const char* key) {
  const Json& value = object.at(key);
  return value.is_null() ? 0 : value.get<double>();
}

std::string duration(double micros) {
  if (micros >= 1e6) return fmt::format("{:.1f} s", micros / 1e6);
  if (micros >= 1e4) return fmt::format("{:.1f} ms", micros / 1e3);
  return fmt::format("{:.1f} us", micros);
}

/// Lines up columns: those of `right` to the right. Cells are ASCII.
class Table {
 public:
  explicit Table(std::vector<bool> right) : right_(std::move(right)), widths_(right_.size()) {}

  void add(std::vector<std::string> cells) {
    for (size_t i = 0; i < cells.size(); ++i) widths_[i] = std::max(widths_[i], cells[i].size());
    rows_.push_back(std::move(cells));
  }
  void print(std::string& out, std::string_view indent) const {
    for (const auto& row : rows_) {
      std::string line(indent);
      for (size_t i = 0; i < row.size(); ++i) {
        const std::string space(widths_[i] - row[i].size(), ' ');
        line += right_[i] ? space + row[i] : row[i] + space;
        line += "  ";
      }
      line.erase(line.find_last_not_of(' ') + 1);
      out += line + "\n";
    }
  }

 private:
  const std::vector<bool> right_;
  std::vector<size_t> widths_;
  std::vector<std::vector<std::string>> rows_;
};

std::string model_of(const Json& d) {
  const std::string model = text_at(d, "model"), target = text_at(d, "targetModel");
  if (model.empty()) return "-";
  return target.empty() || target == model ? model : model + " -> " + target;
}

double waited(const Json& d) {
  return d.value("wait", Json()).is_null() ? 0 : d.at("microseconds").value("admit", 0.0);
}

double decided_in(const Json& d) {
  double sum = -waited(d);
  for (const auto& stage : d.at("microseconds")) sum += stage.get<double>();
  return sum;
}

std::string outcome(const Json& d) {
  if (!d.at("endpoint").is_null()) return text_at(d, "endpoint");
  if (d.at("status") == 0) return "left";
  return text_at(d, "status") + " " + text_at(d, "error");
}

std::string list_text(const Json& decisions) {
  Table table({false, false, false, true, true, true, true, false});
  table.add({"TIME", "REQUEST", "MODEL", "TRY", "CANDIDATES", "WAITED", "DECIDED IN", "WENT TO"});
  for (const auto& d : decisions)
    table.add({text_at(d, "time").substr(0, 23), text_at(d, "requestId"), model_of(d),
               text_at(d, "try"), text_at(d, "candidates"),
               waited(d) > 0 ? duration(waited(d)) : "-", duration(decided_in(d)), outcome(d)});
  std::string out;
  table.print(out, "");
  return out;
}

void add_costs(std::string& out, std::string_view what, const Json& steps) {
  if (steps.empty()) return;
  fmt::format_to(std::back_inserter(out), "  {:<11}", what);
  std::string_view separator;
  for (const auto& step : steps) {
    const bool failed = step.at("microseconds").is_null();
    fmt::format_to(std::back_inserter(out), "{}{} {}", separator, text_at(step, "name"),
                   failed ? "failed" : duration(number_at(step, "microseconds")));
    separator = ", ";
  }
  out += "\n";
}

void add_filters(std::string& out, const Json& filters) {
  for (const auto& filter : filters) {
    const Json& removed = filter.at("removed");
    if (removed.empty()) continue;
    std::string names;
    for (const auto& name : removed) names += (names.empty() ? "" : ", ") + printable(name);
    fmt::format_to(std::back_inserter(out), "  {} removed {}: {}\n", text_at(filter, "name"),
                   removed.size(), names);
  }
}

/// Scorers have letters, so that the table stays narrow.
std::string letter(size_t scorer) {
  return scorer < 26 ? std::string(1, static_cast<char>('A' + scorer)) : std::to_string(scorer);
}

void add_scores(std::string& out, const Json& d, const Json& profile) {
  const Json& scorers = profile.at("scorers");
  const Json& rows = profile.at("endpoints");
  if (rows.empty()) return;
  for (size_t i = 0; i < scorers.size(); ++i)
    fmt::format_to(std::back_inserter(out), "  {}  {} x {:g}\n", letter(i),
                   text_at(scorers[i], "name"), number_at(scorers[i], "weight"));
  Table table([&] {
    std::vector<bool> right(6 + 2 * scorers.size(), true);
    right[0] = right[1] = false;
    return right;
  }());
  std::vector<std::string> head = {"", "ENDPOINT", "WAITING", "RUNNING", "KV"};
  for (size_t i = 0; i < scorers.size(); ++i) head.insert(head.end(), {letter(i), "weighted"});
  head.emplace_back("TOTAL");
  table.add(std::move(head));
  const std::string first = profile.at("picked").empty() ? "" : profile.at("picked")[0];
  size_t left_out = 0;
  for (size_t r = 0; r < rows.size(); ++r) {
    const Json& row = rows[r];
    const bool picked = row.at("endpoint") == first;
    if (r >= kRowsMax && !picked) {
      ++left_out;
      continue;
    }
    const auto known = std::ranges::find_if(
        d.at("endpoints"), [&](const Json& e) { return e.at("endpoint") == row.at("endpoint"); });
    std::vector<std::string> cells = {picked ? "*" : "", text_at(row, "endpoint"),
                                      text_at(*known, "waiting"), text_at(*known, "running"),
                                      fmt::format("{:.0f}%", 100 * number_at(*known, "kvUsage"))};
    for (size_t i = 0; i < scorers.size(); ++i) {
      const Json& score = row.at("scores")[i];
      cells.push_back(score.is_null() ? "NaN" : fmt::format("{:.3f}", score.get<double>()));
      cells.push_back(fmt::format("{:.3f}", row.at("weighted")[i].get<double>()));
    }
    cells.push_back(fmt::format("{:.3f}", number_at(row, "total")));
    table.add(std::move(cells));
  }
  table.print(out, "  ");
  if (left_out > 0)
    fmt::format_to(std::back_inserter(out), "  … and {} more; --json has all\n", left_out);
}

void add_tie(std::string& out, const Json& tie) {
  if (tie.is_null()) return;
  fmt::format_to(std::back_inserter(out), "  tie of {}: took number {} of them",
                 text_at(tie, "equals"), text_at(tie, "picked"));
  if (tie.contains("turn"))
    fmt::format_to(
        std::back_inserter(out), ", turn {} of the rotation, {}", text_at(tie, "turn"),
        tie.at("turnBefore") == 0 ? "its first" : "its last was " + text_at(tie, "turnBefore"));
  out += "\n";
}

void add_profile(std::string& out, const Json& d, const Json& profile) {
  if (!profile.at("ran").get<bool>()) return;
  fmt::format_to(std::back_inserter(out), "\n  profile {}{}: {}\n", text_at(profile, "name"),
                 profile.at("primary").get<bool>() ? " (primary)" : "", text_at(profile, "why"));
  add_filters(out, profile.at("filters"));
  add_scores(out, d, profile);
  add_tie(out, profile.at("tie"));
  Json steps = profile.at("filters");
  for (const auto& scorer : profile.at("scorers")) steps.push_back(scorer);
  steps.push_back(profile.at("picker"));
  add_costs(out, "steps", steps);
}

/// Why it had to wait, and how things were when it came.
void add_wait(std::string& out, const Json& d) {
  const Json wait = d.value("wait", Json());
  if (wait.is_null()) return;
  auto to = std::back_inserter(out);
  fmt::format_to(to, "  waited {}: {} (saturation {:g}, its ceiling {:g})\n", duration(waited(d)),
                 text_at(wait, "why"), number_at(wait, "saturation"), number_at(wait, "ceiling"));
  const Json& expected = wait.at("expectedSeconds");
  fmt::format_to(to, "  when it came: {} ahead in its flow, {} in its band; expected wait {}\n",
                 text_at(wait, "aheadInFlow"), text_at(wait, "aheadInBand"),
                 expected.is_null() ? "not known" : duration(1e6 * expected.get<double>()));
}

void add_decision(std::string& out, const Json& d) {
  auto to = std::back_inserter(out);
  const std::string when = text_at(d, "time").substr(0, 23);
  const std::string after = text_at(d, "after");
  fmt::format_to(to, "{}  try {}{}: ", when, text_at(d, "try"),
                 after.empty() ? "" : ", after " + after);
  if (!d.at("endpoint").is_null())
    fmt::format_to(to, "{} {} ({})\n  {}\n",
                   text_at(d, "outcome") == "served" ? "was served by" : "went to",
                   text_at(d, "endpoint"), text_at(d, "address"), text_at(d, "why"));
  else
    fmt::format_to(to, "{}\n  {} {} {}\n", text_at(d, "outcome"), text_at(d, "status"),
                   text_at(d, "code"), text_at(d, "error"));
  if (const auto reason = d.value("dropReason", ""); !reason.empty())
    fmt::format_to(to, "  {}\n", printable(reason));
  add_wait(out, d);
  if (d.at("cut").get<bool>()) out += "  too large to be kept whole: raise --decision-history\n";
  if (!d.contains("profiles")) return;
  for (const auto& profile : d.at("profiles")) add_profile(out, d, profile);
  out += "\n";
  Json stages = Json::array();
  for (const auto& [name, micros] : d.at("microseconds").items())
    stages.push_back({{"name", name}, {"microseconds", micros}});
  add_costs(out, "stages", stages);
  add_costs(out, "producers", d.at("producers"));
}

std::string whole_text(const Json& decisions) {
  const Json& first = decisions.at(0);
  std::string out =
      fmt::format("request {}\n{}  model {}  {} bytes  priority {}\n", text_at(first, "requestId"),
                  text_at(first, "path"), model_of(first), text_at(first, "bodyBytes"),
                  text_at(first, "priority"));
  for (const auto& d : decisions) {
    out += "\n";
    add_decision(out, d);
  }
  return out;
}

}  // namespace

Result<std::string> explain_text(std::string_view json) {
  try {
    const Json answer = Json::parse(json);
    const Json& decisions = answer.at("decisions");
    if (decisions.empty()) return "no request has come yet\n";
    return decisions[0].contains("why") ? whole_text(decisions) : list_text(decisions);
  } catch (const Json::exception&) {
    return fail(Code::kInternal, "the answer is not that of an admin port");
  }
}

}  // namespace llmd
