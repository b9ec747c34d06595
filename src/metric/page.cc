#include "page.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <numeric>

namespace llmd::metric {
namespace {

void append_escaped(std::string& out, std::string_view text, bool quotes) {
  for (const char c : text) {
    if (c == '\\')
      out += "\\\\";
    else if (c == '\n')
      out += "\\n";
    else if (c == '"' && quotes)
      out += "\\\"";
    else
      out += c;
  }
}

std::string_view type_of(Kind kind) {
  switch (kind) {
    case Kind::kCounter:
      return "counter";
    case Kind::kGauge:
      return "gauge";
    case Kind::kHistogram:
      return "histogram";
  }
  return "untyped";
}

void append_header(std::string& out, std::string_view name, const FamilyImpl& family, bool twin) {
  std::string_view help = family.help();
  out.append("# HELP ").append(name).append(" ");
  constexpr std::string_view kStage = "[ALPHA] ";
  if (twin) {
    if (help.starts_with(kStage)) {
      out += kStage;
      help.remove_prefix(kStage.size());
    }
    out.append("[Deprecated: Use ").append(family.name()).append("] ");
  }
  append_escaped(out, help, false);
  out.append("\n# TYPE ").append(name).append(" ").append(type_of(family.kind())).append("\n");
}

/// Where the labels of a page's family come from: names sorted, each with its index in the
/// canonical label values.
struct Projection {
  std::vector<std::pair<std::string_view, size_t>> labels;

  Projection(const FamilyImpl& family, const TwinView* twin) {
    const auto& names = twin ? twin->labels : family.labels();
    for (size_t i = 0; i < names.size(); ++i)
      labels.emplace_back(names[i], twin ? twin->from[i] : i);
    std::ranges::sort(labels);
  }

  std::vector<std::string_view> values(const Labels& canonical) const {
    std::vector<std::string_view> out;
    for (const auto& [name, from] : labels) out.emplace_back(canonical[from]);
    return out;
  }

  /// `a="x",b="y"`, without braces.
  std::string text(const std::vector<std::string_view>& values) const {
    std::string out;
    for (size_t i = 0; i < labels.size(); ++i) {
      if (i != 0) out += ',';
      out.append(labels[i].first).append("=\"");
      append_escaped(out, values[i], true);
      out += '"';
    }
    return out;
  }
};

/// One line. `le` is empty for a line without that label.
void append_sample(std::string& out, std::string_view name, std::string_view suffix,
                   std::string_view labels, std::string_view le, double value) {
  out.append(name).append(suffix);
  if (!labels.empty() || !le.empty()) {
    out += '{';
    out += labels;
    if (!le.empty()) {
      if (!labels.empty()) out += ',';
      out.append("le=\"").append(le).append("\"");
    }
    out += '}';
  }
  out += ' ';
  append_value(out, value);
  out += '\n';
}

void append_histogram(std::string& out, std::string_view name, std::string_view labels,
                      const std::vector<std::string>& bounds, const std::vector<double>& totals) {
  double count = 0;
  for (size_t i = 0; i < bounds.size(); ++i)
    append_sample(out, name, "_bucket", labels, bounds[i], count += totals[1 + i]);
  append_sample(out, name, "_sum", labels, {}, totals.front());
  append_sample(out, name, "_count", labels, {}, count);
}

/// A histogram with labels appears with its first value, so that handles can be made ahead of time.
bool never_observed(const Series& series) {
  if (series.words() == 1) return false;
  for (size_t word = 1; word < series.words(); ++word)
    if (series.total(word) != 0) return false;
  return true;
}

}  // namespace

void append_family(std::string& out, const FamilyImpl& family, const TwinView* twin) {
  const auto series = family.exposed();
  if (series.empty()) return;
  const std::string_view name = twin ? twin->name : family.name();
  const Projection projection(family, twin);

  std::map<std::vector<std::string_view>, std::vector<double>> rows;
  for (const auto& [labels, cells] : series) {
    if (!labels->empty() && never_observed(*cells)) continue;
    auto& totals = rows[projection.values(*labels)];
    totals.resize(cells->words());
    for (size_t word = 0; word < cells->words(); ++word) totals[word] += cells->total(word);
  }

  if (rows.empty()) return;

  std::vector<std::string> bounds;
  if (family.kind() == Kind::kHistogram) {
    for (const double bound : series.front().second->bounds())
      append_value(bounds.emplace_back(), bound);
    bounds.emplace_back("+Inf");
  }
  append_header(out, name, family, twin != nullptr);
  for (const auto& [values, totals] : rows) {
    const std::string labels = projection.text(values);
    if (family.kind() == Kind::kHistogram)
      append_histogram(out, name, labels, bounds, totals);
    else
      append_sample(out, name, {}, labels, {}, totals.front());
  }
}

void append_value(std::string& out, double v) {
  if (std::isnan(v)) {
    out += "NaN";
  } else if (std::isinf(v)) {
    out += v > 0 ? "+Inf" : "-Inf";
  } else if (v == 0) {
    out += '0';
  } else {
    char text[32];
    // Below 1e-4 and from 1e6 on, the exponent form; its shortest digits are those of the plain
    // form.
    const double magnitude = std::fabs(v);
    const auto format = magnitude < 1e-4 || magnitude >= 1e6 ? std::chars_format::scientific
                                                             : std::chars_format::fixed;
    out.append(text, std::to_chars(text, text + sizeof text, v, format).ptr);
  }
}

}  // namespace llmd::metric
