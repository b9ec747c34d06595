#pragma once

#include "message_reader.h"

#include "grpc/server.h"
#include "http2/session.h"

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace llmd::grpc {

/// What a server's connections share.
struct ServerContext {
  ServerContext(io::Loop& l, ServerOptions o, std::vector<Method> m, io::ByteBudget& b,
                ServerMetrics counters)
      : loop(l), options(std::move(o)), methods(std::move(m)), budget(b), metrics(counters) {}

  http2::Limits limits() const;
  http2::Counters counters() const;

  io::Loop& loop;
  const ServerOptions options;
  const std::vector<Method> methods;
  io::ByteBudget& budget;
  const ServerMetrics metrics;
  std::atomic<size_t> open_calls{0};  // written by the loop alone
  /// Why calls end whose connection is closed.
  StatusCode closing = StatusCode::kCancelled;
};

/// One HTTP/2 stream and the call on it: its head arrives (no handler), it is open, it has ended
/// (the status is queued or sent).
class CallStream final : public Call, public http2::Stream {
 public:
  explicit CallStream(ServerContext& context);

 private:
  friend class Call;

  bool on_field(std::string_view name, std::string_view value) override;
  void on_fields_end(bool last) override;
  void on_data(std::string_view data) override;
  void on_end() override;
  void on_output_sent() override;
  void on_closed(http2::Error error) override;

  void begin();
  void send_message(std::span<const Piece> pieces);
  void end(StatusCode code, std::string_view message);
  /// An answer that is only a head: to what is no call, or to one that failed before it sent.
  void reject(int http_status, StatusCode code, std::string_view message);
  /// Ends the call with the handler told; the peer learns of it unless it has gone.
  void abort(StatusCode why, std::string_view message);
  void count_end();

  ServerContext& context_;

  // Head.
  std::string path_;
  std::string timeout_;
  std::string encoding_;
  std::string traceparent_;
  bool is_post_ = false;
  bool is_grpc_ = false;

  // Call.
  bool begun_ = false;  // its head is complete, so it counts as open until it has ended
  bool ended_ = false;  // finish() or an abort
  MessageReader reader_;
  size_t uncredited_ = 0;  // received, and not given back to the stream's window
  std::unique_ptr<io::Timer> deadline_;
  std::unique_ptr<CallHandler> handler_;
};

}  // namespace llmd::grpc
