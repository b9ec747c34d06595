#pragma once

#include "base/result.h"
#include "http/client.h"
#include "io/loop.h"
#include "metric/registry.h"
#include "trace/settings.h"
#include "trace/tracer.h"

#include <string>
#include <vector>

namespace llmd::trace {

/// Posts what a Tracer has queued to the collector, as OTLP over HTTP, one export at a time. An
/// export that the collector may take later is tried again with the next ones; what it refuses is
/// counted and dropped. Threading: the loop's thread; destroy while it does not run.
class Exporter final : http::CallHandler {
 public:
  /// `collector` is where the settings' host is; `service_version` names the scopes' version.
  Exporter(io::Loop& loop, Tracer& tracer, const Settings& settings, http::Destination collector,
           std::string service_version, metric::Registry& metrics);
  ~Exporter();

  /// Begins to export at the interval of the settings.
  void start();
  /// Exports what is queued, turning the loop, for `limit` at most. Requires: the loop does not
  /// run.
  void flush(Nanos limit);

 private:
  static constexpr int kTriesMax = 3;

  void tick();
  void send();
  void ended(bool taken, bool retryable, std::string_view why);
  void on_response(const http::ResponseHead& head) override { status_ = head.status; }
  void on_data(std::string_view data, bool last) override;
  void on_failure(http::Failure failure) override;

  io::Loop& loop_;
  Tracer& tracer_;
  const Settings& settings_;
  const std::string version_;
  const http::Destination destination_;
  std::string host_;
  std::vector<HeaderField> headers_;
  const metric::Counter exported_, failed_;
  http::Client client_;
  http::Call call_;
  io::Timer tick_timer_;
  io::Timer timeout_;
  std::string body_;  // the export under way or to be tried again; empty: none
  size_t body_spans_ = 0;
  std::string_view piece_;
  int tries_ = 0;
  int status_ = 0;
  bool failing_ = false;
};

}  // namespace llmd::trace
