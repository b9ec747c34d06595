#include "trace/trace.h"

#include <cstring>

namespace llmd::trace {

Trace::Trace(Arena& arena, Rng& rng, const Clock& clock, const SpanContext& own, uint64_t parent,
             std::string_view name)
    : arena_(arena), rng_(rng), clock_(clock), context_(own) {
  first_ = last_ = current_ = arena_.make<Span>();
  first_->name = name;
  first_->kind = Kind::kServer;
  first_->id = own.span;
  first_->parent_id = parent;
  first_->begin = clock_.now();
}

Span& Trace::open(std::string_view name, Scope scope, Kind kind) {
  auto* span = arena_.make<Span>();
  span->name = name;
  span->scope = scope;
  span->kind = kind;
  span->id = rng_.next() | 1;  // never 0, which stands for none
  span->parent_id = current_->id;
  span->parent = current_;
  span->begin = clock_.now();
  last_->next = span;
  return *(current_ = last_ = span);
}

void Trace::close() {
  if (!current_->parent) return;
  current_->end = clock_.now();
  current_ = current_->parent;
}

void Trace::fail(std::string_view why) {
  const auto kept = arena_.copy(why);
  for (Span* span = current_; span; span = span->parent) {
    span->failed = true;
    span->error = kept;
  }
}

void Trace::close_all() {
  while (current_->parent) close();
  current_->end = clock_.now();
}

void Trace::set(Span& span, std::string_view key, Value value) {
  span.attributes = arena_.make<Attribute>(key, value, span.attributes);
}

Stage::Stage(Trace* trace, std::string_view prefix, std::string_view name, Scope scope)
    : trace_(trace), span_(nullptr) {
  if (!trace_) return;
  const auto whole = trace_->arena().array<char>(prefix.size() + name.size());
  std::memcpy(whole.data(), prefix.data(), prefix.size());
  std::memcpy(whole.data() + prefix.size(), name.data(), name.size());
  span_ = &trace_->open({whole.data(), whole.size()}, scope);
}

}  // namespace llmd::trace
