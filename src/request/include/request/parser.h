#pragma once

#include "base/arena.h"
#include "base/result.h"
#include "plugin/plugin.h"
#include "request/request_view.h"

#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace llmd::request {

/// Reads the body of one request while it arrives. Offsets only, so the body may move between
/// calls. Threading: one request, one thread. Created in the request's arena; trivially
/// destructible work only.
class BodyScan {
 public:
  /// `body` is everything received so far, the earlier bytes unchanged. Errors are reported by
  /// finish().
  virtual void feed(std::string_view body) = 0;
  /// The whole body is there: the view, or why the request is refused (spec 01 §7 texts).
  virtual Result<RequestView> finish(std::string_view body) = 0;

 protected:
  ~BodyScan() = default;
};

/// Reads token counts from a response body while it passes through. One per response.
class UsageScan {
 public:
  virtual void feed(std::string_view chunk) = 0;
  /// After the last byte.
  virtual void finish() = 0;
  const Usage& usage() const { return usage_; }
  /// SSE data lines seen, "[DONE]" excluded; 0 for JSON bodies.
  uint64_t events() const { return events_; }

 protected:
  ~UsageScan() = default;
  Usage usage_;
  uint64_t events_ = 0;
};

/// What a parser may know of a request before its body.
struct Head {
  std::string_view path;  // without query
  std::string_view content_type;
};

/// An API family. Parsers are plugins so that a configuration can name and order them.
class Parser : public virtual plugin::Plugin {
 public:
  /// Path suffixes that it claims; empty: it is a fallback for any path.
  virtual std::span<const std::string_view> path_suffixes() const = 0;
  /// `path` has no query. Both scans live in `arena` and are valid until it is reset.
  virtual BodyScan* scan_request(const Head& head, Arena& arena) const = 0;
  /// `streaming`: the answer is SSE. May be null: nothing is read from the answer.
  virtual UsageScan* scan_response(std::string_view path, bool streaming, Arena& arena) const = 0;
};

/// Chooses the parser of a path (spec 01 §7): the longest claimed suffix wins, ties go to the first
/// configured; else the first fallback; else null. `path` may end in one '/', which does not count.
class ParserTable {
 public:
  ParserTable() = default;
  explicit ParserTable(std::span<const Parser* const> parsers);
  const Parser* resolve(std::string_view path) const;

 private:
  std::vector<std::pair<std::string_view, const Parser*>> suffixes_;  // longest first
  const Parser* fallback_ = nullptr;
};

}  // namespace llmd::request
