#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// Counters, gauges and histograms that cost one plain store on the loop that owns the cell.
///
/// A series has one cell per loop; a scrape sums them. Deprecated twin names are projections: they
/// are computed from the canonical series when the page is rendered, by summing over the labels
/// that the twin lacks, so they cost nothing to write.
namespace llmd::metric {

enum class Kind : uint8_t { kCounter, kGauge, kHistogram };

/// An old name of a family. `labels` lists (old label, canonical label) pairs; canonical labels not
/// named are summed away.
struct Twin {
  std::string_view name;
  std::vector<std::pair<std::string_view, std::string_view>> labels;
};

/// Declared once, in a table of the module that writes it; docs and conformance tests read the same
/// table.
struct Definition {
  std::string_view name;  // with prefix, as exposed
  Kind kind;
  std::string_view help;
  std::vector<std::string_view> labels;
  std::span<const double> buckets;  // upper bounds without +Inf; histograms only
  std::vector<Twin> twins;
};

/// Which cell the calling thread writes: loops set their index + 1 once at start; 0 is shared by
/// all other threads.
void set_thread_cell(size_t cell);
size_t thread_cell();

class Series;  // a row of cells

/// Handles are pointers: copy freely; valid as long as the registry. Writing is wait-free; a
/// default-constructed handle writes nothing.
class Counter {
 public:
  void add(double n = 1) const;

 private:
  friend class Family;
  Series* series_ = nullptr;
};

class Gauge {
 public:
  void add(double n) const;
  /// Sets the sum over all cells: use from one thread only, and do not mix with add().
  void set(double v) const;

 private:
  friend class Family;
  Series* series_ = nullptr;
};

class Histogram {
 public:
  void observe(double v) const;

 private:
  friend class Family;
  Series* series_ = nullptr;
};

/// All series of one name. A handle costs a shared lock and a hash look-up: keep it where the label
/// values are known. Requires: as many label values as the definition has labels, in its order; the
/// method that fits the family's kind.
class Family {
 public:
  virtual ~Family() = default;
  virtual Counter counter(std::span<const std::string_view> label_values) = 0;
  virtual Gauge gauge(std::span<const std::string_view> label_values) = 0;
  virtual Histogram histogram(std::span<const std::string_view> label_values) = 0;
  /// Drops every series whose `label` has `value`. Handles to them stay valid but are no longer
  /// exposed, until the same label values are asked for again: the series then goes on from where
  /// it was.
  virtual void forget(std::string_view label, std::string_view value) = 0;

 protected:
  static Counter make_counter(Series* s) {
    Counter c;
    c.series_ = s;
    return c;
  }
  static Gauge make_gauge(Series* s) {
    Gauge g;
    g.series_ = s;
    return g;
  }
  static Histogram make_histogram(Series* s) {
    Histogram h;
    h.series_ = s;
    return h;
  }
};

/// Caps the number of distinct label values for the life of the process (spec 04 §3.1): once
/// `limit` values were seen, a new one is reported as "other". The empty string and pinned values
/// always pass. Threading: any; the known-value path is a shared lock and a look-up.
class LabelGuard {
 public:
  explicit LabelGuard(size_t limit);
  ~LabelGuard();
  std::string_view admit(std::string_view value);
  void pin(std::string_view value);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Threading: any. One per process (tests make their own).
class Registry {
 public:
  /// `loops`: how many event loops will write, so each gets a cell of its own.
  explicit Registry(size_t loops);
  ~Registry();

  /// The family of `definition.name`; made on first use. Requires: the same name always comes with
  /// the same definition.
  Family& family(const Definition& definition);

  /// Whether twins are rendered; they are by default.
  void show_twins(bool show);

  /// Calls `collect` before every render, to refresh gauges that are computed only when asked for.
  /// The returned token unregisters on destruction, waiting for a render under way; so `collect`
  /// must not drop it itself.
  std::shared_ptr<void> on_collect(std::function<void()> collect);

  /// The page in Prometheus text format 0.0.4: families sorted by name, labels by name, `le` last.
  std::string render();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Appends the shortest text that reads back as the same double, in the spelling Prometheus clients
/// use (1e+06, 0.5, +Inf, NaN).
void append_value(std::string& out, double v);

}  // namespace llmd::metric
