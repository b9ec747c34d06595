#include "trace/tracer.h"

#include "codec/protobuf.h"

#include <bit>

namespace llmd::trace {
namespace {

using codec::ProtoWriter;

std::string_view big_endian(uint64_t& word) {
  word = __builtin_bswap64(word);
  return {reinterpret_cast<const char*>(&word), sizeof word};
}

void write_value(ProtoWriter& w, const Value& value) {
  if (const auto* text = std::get_if<std::string_view>(&value)) w.bytes(1, *text);
  if (const auto* flag = std::get_if<bool>(&value)) w.varint(2, *flag);
  if (const auto* whole = std::get_if<int64_t>(&value)) w.varint(3, static_cast<uint64_t>(*whole));
  if (const auto* real = std::get_if<double>(&value)) w.real(4, *real);
}

/// Span, of opentelemetry.proto.trace.v1: 1 trace_id  2 span_id  4 parent_span_id  5 name  6 kind
/// 7 start_time_unix_nano  8 end_time_unix_nano  9 attributes (KeyValue{1 key  2 value})
/// 15 status{2 message  3 code (2: error)}
void write_span(ProtoWriter& w, const Span& span, std::string_view trace_id, Nanos to_wall) {
  w.bytes(1, trace_id);
  uint64_t id = span.id, parent = span.parent_id;
  w.bytes(2, big_endian(id));
  if (parent != 0) w.bytes(4, big_endian(parent));
  w.bytes(5, span.name);
  w.varint(6, static_cast<uint64_t>(span.kind));
  w.fixed(7, static_cast<uint64_t>((span.begin.time_since_epoch() + to_wall).count()));
  w.fixed(8, static_cast<uint64_t>((span.end.time_since_epoch() + to_wall).count()));
  for (const auto* attribute = span.attributes; attribute; attribute = attribute->next)
    w.message(9, [&] {
      w.bytes(1, attribute->key);
      w.message(2, [&] { write_value(w, attribute->value); });
    });
  if (span.failed)
    w.message(15, [&] {
      w.bytes(2, span.error);
      w.varint(3, 2);
    });
}

constexpr uint64_t kLow63 = ~uint64_t{0} >> 1;

uint64_t threshold_of(double ratio) {
  return ratio >= 1 ? kLow63 + 1 : static_cast<uint64_t>(ratio * 0x1.0p63);
}

}  // namespace

metric::Counter span_counter(metric::Registry& metrics, std::string_view outcome) {
  const std::array values = {outcome};
  return metrics
      .family({"llmd_trace_spans_total",
               metric::Kind::kCounter,
               "Spans recorded, by what became of them.",
               {"outcome"},
               {},
               {}})
      .counter(values);
}

Tracer::Tracer(const Settings& settings, const Clock& clock, metric::Registry& metrics)
    : threshold_(threshold_of(settings.ratio)),
      batch_max_(settings.batch_max),
      queue_max_(settings.queue_max),
      clock_(clock),
      dropped_(span_counter(metrics, "dropped")) {}

Tracer::Start Tracer::start(HeaderView headers, Rng& rng, std::string_view carrier) const {
  auto parent = parse_traceparent(headers.get("traceparent"));
  if (!parent) parent = parse_traceparent(carrier);
  if (parent) {
    SpanContext own = *parent;
    own.span = rng.next() | 1;
    return {own, parent->span};
  }
  SpanContext own{rng.next(), rng.next() | 1, rng.next() | 1, false};
  own.sampled = (own.trace_low >> 1) < threshold_;
  return {own, 0};
}

void Tracer::finish(const Trace& trace) {
  uint64_t words[2] = {__builtin_bswap64(trace.context().trace_high),
                       __builtin_bswap64(trace.context().trace_low)};
  const std::string_view trace_id(reinterpret_cast<const char*>(words), sizeof words);
  const Nanos to_wall = clock_.wall().time_since_epoch() - clock_.now().time_since_epoch();
  Batch batch;
  for (const Span* span = trace.first(); span; span = span->next) {
    ProtoWriter w(batch.spans[static_cast<size_t>(span->scope)]);
    w.message(2, [&] { write_span(w, *span, trace_id, to_wall); });
    ++batch.count;
  }
  bool full = false;
  {
    const MutexLock lock(mutex_);
    if (queue_.count + batch.count > queue_max_) {
      dropped_.add(static_cast<double>(batch.count));
      return;
    }
    for (size_t i = 0; i < kScopes; ++i) queue_.spans[i] += batch.spans[i];
    full = queue_.count < batch_max_ && queue_.count + batch.count >= batch_max_;
    queue_.count += batch.count;
  }
  if (full && wake_) wake_();
}

Batch Tracer::take() {
  const MutexLock lock(mutex_);
  return std::exchange(queue_, {});
}

}  // namespace llmd::trace
