#pragma once

#include "base/arena.h"
#include "base/clock.h"
#include "base/rng.h"
#include "trace/span_context.h"

#include <concepts>
#include <cstdint>
#include <string_view>
#include <variant>

namespace llmd::trace {

/// The part of the program that a span comes from; named as the reference names its own.
enum class Scope : uint8_t { kHandlers, kRequestControl, kScheduling, kPlugins };
inline constexpr size_t kScopes = 4;

/// As in OTLP.
enum class Kind : uint8_t { kInternal = 1, kServer = 2 };

using Value = std::variant<std::string_view, int64_t, double, bool>;

struct Attribute {
  std::string_view key;
  Value value;
  Attribute* next = nullptr;
};

struct Span {
  std::string_view name;
  Scope scope = Scope::kHandlers;
  Kind kind = Kind::kInternal;
  uint64_t id = 0;
  uint64_t parent_id = 0;  // 0: none
  TimePoint begin{}, end{};
  bool failed = false;
  std::string_view error;
  Attribute* attributes = nullptr;
  Span* parent = nullptr;  // within this process
  Span* next = nullptr;    // in the order of their beginning
};

/// The spans of one sampled request. They nest: a span is a child of the one that was open when it
/// began. Lives in the request's arena, and so do its strings. Threading: the request's loop.
class Trace {
 public:
  /// `own` is the context of the first span, `parent` the caller's span (0: none).
  Trace(Arena& arena, Rng& rng, const Clock& clock, const SpanContext& own, uint64_t parent,
        std::string_view name);

  Span& open(std::string_view name, Scope scope, Kind kind = Kind::kInternal);
  /// Ends the innermost open span. The first one stays open until close_all().
  void close();
  /// Marks every open span as failed. `why` is copied.
  void fail(std::string_view why);
  void close_all();

  Span& current() { return *current_; }
  const Span* first() const { return first_; }
  const SpanContext& context() const { return context_; }

  /// `key` and strings in `value` must live as long as the arena's contents.
  void set(Span& span, std::string_view key, Value value);

  Arena& arena() { return arena_; }

 private:
  Arena& arena_;
  Rng& rng_;
  const Clock& clock_;
  SpanContext context_;
  Span* first_;
  Span* last_;
  Span* current_;
};

/// A span for as long as this object lives; nothing when `trace` is null.
class Stage {
 public:
  Stage(Trace* trace, std::string_view name, Scope scope, Kind kind = Kind::kInternal)
      : trace_(trace), span_(trace ? &trace->open(name, scope, kind) : nullptr) {}
  /// The name is `prefix` followed by `name`.
  Stage(Trace* trace, std::string_view prefix, std::string_view name, Scope scope);
  ~Stage() {
    if (trace_) trace_->close();
  }
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  explicit operator bool() const { return trace_ != nullptr; }

  void set(std::string_view key, std::string_view value) { put(key, value); }
  void set(std::string_view key, double value) { put(key, value); }
  void set(std::string_view key, std::integral auto value) {
    put(key, static_cast<int64_t>(value));
  }

 private:
  void put(std::string_view key, Value value) {
    if (trace_) trace_->set(*span_, key, value);
  }

  Trace* trace_;
  Span* span_;
};

}  // namespace llmd::trace
