#pragma once

#include "schedule/request_context.h"
#include "trace/tracer.h"

#include <string_view>

namespace llmd::route {

/// The spans of one request's life: its own, and the work between its last byte and its endpoint.
class RequestTrace {
 public:
  /// Reads the client's trace context, from the headers or from what came beside them; `tracer` may
  /// be null: no spans, the header stays.
  void begin(trace::Tracer* tracer, schedule::RequestContext& c, Rng& rng,
             std::string_view carrier);
  void end(schedule::RequestContext& c);

  /// From the last byte of a request, or its endpoint's failure, to its way to an endpoint.
  static void orchestrate(schedule::RequestContext& c);
  static void end_orchestration(schedule::RequestContext& c);

  /// Of the forwarded request; empty: as the client sent it.
  std::string_view traceparent() const { return traceparent_; }

 private:
  trace::Tracer* tracer_ = nullptr;
  std::string_view traceparent_;
};

}  // namespace llmd::route
