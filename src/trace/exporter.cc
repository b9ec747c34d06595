#include "trace/exporter.h"

#include "base/log.h"
#include "codec/protobuf.h"

#include <fmt/format.h>

namespace llmd::trace {
namespace {

using codec::ProtoWriter;

constexpr std::array<std::string_view, kScopes> kScopeNames = {
    "llm-d-router/pkg/epp/handlers", "llm-d-router/pkg/epp/requestcontrol",
    "llm-d-router/pkg/epp/scheduling", "llm-d-router/pkg/epp/framework/plugins/scheduling"};

/// ExportTraceServiceRequest{1 resource_spans{1 resource{1 attributes}  2 scope_spans{1 scope{1
/// name 2 version}  2 spans}}}, of opentelemetry.proto.
void write_export(std::string& out, const Batch& batch, const TextPairs& attributes,
                  std::string_view version) {
  ProtoWriter w(out);
  w.message(1, [&] {
    w.message(1, [&] {
      for (const auto& [key, value] : attributes)
        w.message(1, [&] {
          w.bytes(1, key);
          w.message(2, [&] { w.bytes(1, value); });
        });
    });
    for (size_t i = 0; i < kScopes; ++i) {
      if (batch.spans[i].empty()) continue;
      w.message(2, [&] {
        w.message(1, [&] {
          w.bytes(1, kScopeNames[i]);
          w.bytes(2, version);
        });
        out += batch.spans[i];
      });
    }
  });
}

}  // namespace

Exporter::Exporter(io::Loop& loop, Tracer& tracer, const Settings& settings,
                   http::Destination collector, std::string service_version,
                   metric::Registry& metrics)
    : loop_(loop),
      tracer_(tracer),
      settings_(settings),
      version_(std::move(service_version)),
      destination_(std::move(collector)),
      host_(settings.host.find(':') == std::string::npos
                ? fmt::format("{}:{}", settings.host, settings.port)
                : fmt::format("[{}]:{}", settings.host, settings.port)),
      headers_{{"Content-Type", "application/x-protobuf"}},
      exported_(span_counter(metrics, "exported")),
      failed_(span_counter(metrics, "failed")),
      client_(loop),
      call_(client_, *this),
      tick_timer_(loop),
      timeout_(loop) {
  for (const auto& [name, value] : settings_.headers) headers_.push_back({name, value});
  tracer_.on_full([this] { loop_.post([this] { send(); }); });
}

Exporter::~Exporter() {
  call_.abort();
}

void Exporter::start() {
  tick_timer_.arm(settings_.interval, [this] { tick(); });
}

void Exporter::tick() {
  send();
  start();
}

void Exporter::send() {
  if (call_.active()) return;
  if (body_.empty()) {
    const Batch batch = tracer_.take();
    if (batch.count == 0) return;
    write_export(body_, batch, settings_.attributes, version_);
    body_spans_ = batch.count;
    tries_ = 0;
  }
  ++tries_;
  status_ = 0;
  piece_ = body_;
  call_.start(destination_, {.method = "POST",
                             .target = settings_.path,
                             .host = host_,
                             .headers = headers_,
                             .body = {&piece_, 1}});
  timeout_.arm(settings_.timeout, [this] {
    call_.abort();
    ended(false, true, http::text_of(http::Failure::kTimeout));
  });
}

void Exporter::on_data(std::string_view, bool last) {
  if (!last) return;
  const bool busy = status_ == 429 || (status_ >= 502 && status_ <= 504);
  ended(status_ >= 200 && status_ < 300, busy, fmt::format("status {}", status_));
}

void Exporter::on_failure(http::Failure failure) {
  ended(false, true, http::text_of(failure));
}

void Exporter::ended(bool taken, bool retryable, std::string_view why) {
  timeout_.cancel();
  if (taken) {
    if (std::exchange(failing_, false))
      log::info("traces are exported again", {{"collector", host_}});
    exported_.add(static_cast<double>(body_spans_));
    body_.clear();
    return;
  }
  if (!std::exchange(failing_, true))
    log::warn("traces cannot be exported", {{"collector", host_}, {"error", why}});
  if (retryable && tries_ < kTriesMax) return;
  failed_.add(static_cast<double>(body_spans_));
  body_.clear();
}

void Exporter::flush(Nanos limit) {
  const TimePoint until = loop_.clock().now() + limit;
  send();
  while (call_.active() && loop_.clock().now() < until) loop_.turn(std::chrono::milliseconds(10));
}

}  // namespace llmd::trace
