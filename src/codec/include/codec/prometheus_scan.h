#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// Reads a page in the Prometheus text format (or OpenMetrics) while it arrives, and reports the
/// samples of a few wanted metrics. All other lines are passed over at the speed of memchr. A line
/// that cannot be read is counted and left out: one odd series does not lose the page.
namespace llmd::codec {

/// The metric names that a caller wants, at most 64 of at most 255 bytes each.
/// Threading: immutable. Cost of a look-up: the name's length, then a comparison with the names of
/// that length.
class PrometheusNames {
 public:
  explicit PrometheusNames(std::span<const std::string_view> names);

  /// The place of `name` in the list, or nothing.
  std::optional<size_t> find(std::string_view name) const {
    if (name.size() >= by_length_.size() || by_length_[name.size()] == 0) return std::nullopt;
    return find_among(name, by_length_[name.size()]);
  }

 private:
  std::optional<size_t> find_among(std::string_view name, uint64_t candidates) const;

  std::vector<std::string> names_;
  std::array<uint64_t, 256> by_length_{};  // bit i: name i has this length
};

struct PrometheusSample {
  std::string_view labels;  // the text between the braces, still escaped; "" without labels
  double value = 0;
  std::string_view timestamp;  // as written; "" without one
};

/// The value of label `name` in a sample's `labels`, escapes resolved; nothing when it is not there
/// or the list is malformed before it.
std::optional<std::string> prometheus_label(std::string_view labels, std::string_view name);

/// Receives samples in page order. Views are valid during the call.
class PrometheusSink {
 public:
  /// `index` is the name's place in PrometheusNames.
  virtual void sample(size_t index, const PrometheusSample& sample) = 0;

 protected:
  ~PrometheusSink() = default;
};

/// Threading: one thread. Memory: at most kLineMax bytes, for a line that is split between chunks;
/// a longer one is left out.
class PrometheusScanner {
 public:
  static constexpr size_t kLineMax = 64 * 1024;

  PrometheusScanner(const PrometheusNames& names, PrometheusSink& sink)
      : names_(names), sink_(sink) {}

  void feed(std::string_view chunk);
  /// After the last byte: reads a last line that has no line end.
  void finish();

  /// OpenMetrics' "# EOF" was seen; what follows it is ignored.
  bool saw_end() const { return saw_end_; }
  /// Wanted lines that could not be read, and lines over kLineMax.
  size_t bad_lines() const { return bad_lines_; }

 private:
  void read_line(std::string_view line);
  void read_rest(size_t index, std::string_view rest);
  void hold(std::string_view part);

  const PrometheusNames& names_;
  PrometheusSink& sink_;
  std::string held_;       // the beginning of a split line
  bool skipping_ = false;  // the open line is too long
  bool saw_end_ = false;
  size_t bad_lines_ = 0;
};

}  // namespace llmd::codec
