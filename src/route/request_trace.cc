#include "request_trace.h"

namespace llmd::route {

void RequestTrace::begin(trace::Tracer* tracer, schedule::RequestContext& c, Rng& rng,
                         std::string_view carrier) {
  tracer_ = tracer;
  traceparent_ = {};
  if (!tracer_) return;
  const auto [own, parent] = tracer_->start(c.headers, rng, carrier);
  const auto text = trace::format_traceparent(own);
  traceparent_ = c.arena.copy({text.data(), text.size()});
  if (own.sampled)
    c.trace = c.arena.make<trace::Trace>(c.arena, rng, c.clock, own, parent, "gateway.request");
}

void RequestTrace::end(schedule::RequestContext& c) {
  if (!c.trace) return;
  c.trace->close_all();
  tracer_->finish(*c.trace);
}

void RequestTrace::orchestrate(schedule::RequestContext& c) {
  if (c.trace)
    c.trace->open("gateway.request_orchestration", trace::Scope::kRequestControl,
                  trace::Kind::kServer);
}

void RequestTrace::end_orchestration(schedule::RequestContext& c) {
  if (!c.trace || &c.trace->current() == c.trace->first()) return;
  c.trace->set(c.trace->current(), "target_model", c.target_model);
  c.trace->set(c.trace->current(), "request_prio", int64_t{c.priority});
  c.trace->close();
}

}  // namespace llmd::route
