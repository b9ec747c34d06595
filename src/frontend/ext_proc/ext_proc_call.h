#pragma once

#include "messages.h"

#include "frontend/ext_proc.h"
#include "grpc/health.h"
#include "grpc/server.h"
#include "io/delayed_work.h"
#include "route/director.h"
#include "route/session.h"

#include <array>
#include <optional>
#include <string>
#include <vector>

namespace llmd::frontend::ext_proc {

/// Metrics of streams (spec 04 §2.5), and of what was refused for want of buffers. Handles write
/// nothing when they were not asked for. Threading: one loop.
class StreamMetrics {
 public:
  StreamMetrics(metric::Registry& registry, bool enabled);
  void opened() const { in_flight_.add(1); }
  void ended(grpc::StatusCode code, Nanos duration) const;

  metric::Counter buffers_refused;

 private:
  metric::Gauge in_flight_;
  metric::Histogram duration_;
  std::array<metric::Counter, 17> by_code_;
};

/// What the calls of one loop share.
struct ExtProcLoop {
  ExtProcLoop(io::Loop& loop, route::Director& director, metric::Registry& registry,
              const ExtProcOptions& options, io::ByteBudget& budget);
  ~ExtProcLoop();

  io::Loop& loop;
  const ExtProcOptions& options;
  io::ByteBudget& budget;
  const StreamMetrics metrics;
  route::LoopDirector director;
  std::unique_ptr<grpc::Health> health;
  std::unique_ptr<grpc::Server> server;

  // Room that is reused from message to message.
  std::string message;
  std::string metadata;
  std::vector<HeaderField> fields;
  std::vector<grpc::Piece> pieces;
  struct Head {
    std::string destination;
    std::vector<HeaderField> set;
    std::vector<std::string_view> remove;
    std::vector<std::pair<std::string_view, double>> scores;
  } head;

 private:
  io::DelayedWork delayed_;
};

/// One ext-proc stream, which is one HTTP request:
///
///   kNew → kReceiving → kDeciding → kAnswered → kResponding → kDone
///
/// The request's head and body are copied once into buffers of this call; the body goes back to the
/// proxy from there. Answers pass through as they come, chunk by chunk. Messages that make no sense
/// in a state end the stream with an error; it ends with OK only after its request was answered,
/// since OK means "go on without me" to the proxy.
class ExtProcCall final : public grpc::CallHandler, route::SessionSink {
 public:
  ExtProcCall(ExtProcLoop& shared, grpc::Call& call);
  ~ExtProcCall() override;

  void on_message(std::string_view message) override;
  void on_half_close() override;
  void on_abort(grpc::StatusCode why) override;

 private:
  enum class State : uint8_t { kNew, kReceiving, kDeciding, kAnswered, kResponding, kDone };

  void request_headers(const ProcessingRequest& message);
  void request_body(const ProcessingRequest& message);
  void request_trailers();
  void response_headers(const ProcessingRequest& message);
  void response_body(const ProcessingRequest& message);
  void pass_response(std::string_view body, bool last, bool end_of_stream);
  std::string_view reports();
  void response_trailers();

  void forward(const route::Forward& forward) override;
  void reply(const route::Reply& reply) override;

  void withhold_controls();
  void start_session();
  void read_subset_hint(std::string_view metadata);
  bool append_body(std::string_view bytes);
  void end_request();
  void send_request_head(const route::Forward& forward, size_t body_bytes);
  void send_request_body(std::span<const route::Splice> splices);
  void send_body(Direction direction, std::span<const grpc::Piece> pieces, bool end_of_stream,
                 std::string_view metadata = {});
  void send_immediate(int status, std::string_view message, std::string_view drop_reason,
                      int retry_after);
  void refuse(int status, Code code, std::string_view message);
  void end_session(schedule::EndCause cause);
  void out_of_order();
  void fail_stream(grpc::StatusCode code, std::string_view message);
  void finish(grpc::StatusCode code, std::string_view message = {});

  ExtProcLoop& shared_;
  grpc::Call& call_;
  route::Session session_;
  State state_ = State::kNew;
  bool answered_ = false;  // the request's head was, or an answer of our own was given
  bool has_head_ = false;  // request headers came
  bool has_body_ = false;  // the request has a body, perhaps empty
  bool ends_by_trailers_ = false;
  std::string head_;  // the request's HeaderMap
  std::vector<HeaderField> headers_;
  std::vector<std::string_view> withheld_;  // names of lines that headers_ lacks
  io::Buffer body_;
  io::BudgetShare body_share_;
  std::string metadata_;
  std::vector<std::string_view> subset_;
  const TimePoint opened_ = shared_.loop.turn_time();
};

}  // namespace llmd::frontend::ext_proc
