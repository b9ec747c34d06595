#include "fleet/scraper.h"

#include "page_reader.h"

#include "base/check.h"
#include "base/log.h"
#include "fleet/address.h"
#include "http/client.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

namespace llmd::fleet {
namespace {

/// Scrapes that start in one turn of the loop, on average: a wake-up costs more than reading a
/// page.
constexpr size_t kStartedTogether = 8;

/// Where `source` finds the page of an endpoint: an address and a port.
std::pair<std::string_view, uint16_t> place_of(const MetricsSource::Options& source,
                                               const Endpoint& endpoint) {
  const auto& spec = endpoint.spec();
  if (source.placed_by_labels)
    if (const auto* address = endpoint.label("metricsAddress"); address && !address->empty()) {
      const auto* port = endpoint.label("metricsPort");
      return {*address, port ? parse_port(*port).value_or(spec.port) : spec.port};
    }
  return {spec.address, source.port.value_or(spec.port)};
}

/// The scraping of one page of one endpoint: a timer, a connection, a reader.
class Target final : http::CallHandler {
 public:
  struct Shared {
    io::Loop& loop;
    http::Client& client;
    const ScrapeOptions& options;
    const Nanos& beat;                  // starts fall on its multiples
    std::shared_ptr<tls::Context> tls;  // for https
    metric::Counter poll_errors;
    metric::Counter extract_errors;
    size_t& seen;
    const std::string& authorization;
  };

  /// `loads`: the page has the endpoint's load; else its attributes.
  Target(Shared shared, EndpointPtr endpoint, const MetricsSource::Options& source, bool loads,
         PageReader reader)
      : shared_(shared),
        endpoint_(std::move(endpoint)),
        source_(source),
        loads_(loads),
        reader_(std::move(reader)),
        call_(shared.client, *this),
        timer_(shared.loop) {
    const auto& spec = endpoint_->spec();
    const auto [host, port] = place_of(source_, *endpoint_);
    const auto address = io::SocketAddress::parse(host, port);
    if (!address) {
      log::warn("endpoint cannot be scraped",
                {{"endpoint", endpoint_->id()}, {"url", host}, {"error", address.error().message}});
      return;
    }
    destination_ = {*address, endpoint_->generation(), nullptr};
    if (shared_.tls) destination_.tls = shared_.options.upstream.target(spec, shared_.tls);
    host_ = address->to_string();
    interval_ = source_.interval.value_or(shared_.options.interval);
    const double phase = shared_.loop.rng().uniform();
    start_in(Nanos(static_cast<int64_t>(phase * static_cast<double>(interval_.count()))));
  }

  ~Target() {
    call_.abort();
    shared_.client.purge(destination_);
    if (answered_) --shared_.seen;
  }

  /// The same server with other labels.
  void replace(EndpointPtr endpoint) { endpoint_ = std::move(endpoint); }

 private:
  /// The timer serves twice: between scrapes it starts the next one, during a scrape it ends a late
  /// one.
  void scrape() {
    started_ = shared_.loop.clock().now();
    bytes_ = 0;
    status_ = 0;
    reader_.begin();
    http::CallRequest request;
    request.target = source_.path;
    request.host = host_;
    const HeaderField authorization{"Authorization", shared_.authorization};
    if (loads_ && !shared_.authorization.empty()) request.headers = {&authorization, 1};
    call_.start(destination_, request);
    timer_.arm(shared_.options.timeout, [this] {
      call_.abort();
      failed(http::text_of(http::Failure::kTimeout));
    });
  }

  void on_response(const http::ResponseHead& head) override { status_ = head.status; }

  void on_data(std::string_view data, bool last) override {
    bytes_ += data.size();
    if (bytes_ > shared_.options.page_bytes_max) {
      call_.abort();
      return failed("page is too large");
    }
    if (status_ == 200) reader_.feed(data);
    if (!last) return;
    if (status_ != 200) return failed(fmt::format("status {}", status_));
    EndpointMetrics metrics = endpoint_->metrics.load();
    const auto before = endpoint_->details.load();
    EngineDetails details = *before;
    if (auto read = reader_.finish(metrics, details); !read) {
      shared_.extract_errors.add();
      return failed(read.error().message);
    }
    const TimePoint now = shared_.loop.clock().now();
    const Nanos next = next_interval(metrics);
    if (loads_) {
      metrics.updated = now;
      metrics.interval = next;
      endpoint_->metrics.store(metrics);
    }
    if (details != *before)
      endpoint_->details.store(std::make_shared<const EngineDetails>(std::move(details)));
    if (loads_ && !std::exchange(answered_, true)) ++shared_.seen;
    if (std::exchange(failing_, false))
      log::info("endpoint is scraped again", {{"endpoint", endpoint_->id()}});
    wait(next);
  }

  void on_failure(http::Failure failure) override { failed(http::text_of(failure)); }

  void failed(std::string_view why) {
    shared_.poll_errors.add();
    if (!std::exchange(failing_, true))
      log::warn("endpoint cannot be scraped",
                {{"endpoint", endpoint_->id()}, {"url", host_}, {"error", why}});
    wait(interval_);
  }

  bool idle(const EndpointMetrics& metrics) const {
    return metrics.running_requests_size == 0 && metrics.waiting_queue_size == 0 &&
           endpoint_->open_requests.load(std::memory_order_relaxed) == 0;
  }

  Nanos next_interval(const EndpointMetrics& metrics) const {
    const Nanos slow = shared_.options.idle_interval;
    return slow > interval_ && idle(metrics) ? slow : interval_;
  }

  /// The next scrape starts `interval` after this one started; a scrape that took longer is
  /// followed by a pause of the same length, so that a slow engine is not asked without end.
  void wait(Nanos interval) {
    const Nanos spent = shared_.loop.clock().now() - started_;
    start_in(spent < interval ? interval - spent : interval);
  }

  /// Starts the next scrape at the beat that is nearest to `delay` from now.
  void start_in(Nanos delay) {
    const Nanos now = shared_.loop.clock().now().time_since_epoch();
    const Nanos due = (now + delay + shared_.beat / 2) / shared_.beat * shared_.beat;
    timer_.arm(std::max(due - now, Nanos(0)), [this] { scrape(); });
  }

  Shared shared_;
  EndpointPtr endpoint_;
  const MetricsSource::Options source_;
  const bool loads_;
  PageReader reader_;
  http::Call call_;
  io::Timer timer_;
  http::Destination destination_;
  std::string host_;
  Nanos interval_{0};
  TimePoint started_{};
  size_t bytes_ = 0;
  int status_ = 0;
  bool answered_ = false;
  bool failing_ = false;
};

http::ClientOptions client_options() {
  http::ClientOptions options;
  options.idle_timeout = std::chrono::minutes(1);
  options.idle_max = 1;
  return options;
}

metric::Counter errors(metric::Registry& metrics, std::string_view what, const Feed& feed,
                       const std::vector<std::string_view>& labels) {
  const std::string name = fmt::format("llm_d_epp_datalayer_{}_errors_total", what);
  const std::string twin = fmt::format("llm_d_inference_scheduler_datalayer_{}_errors_total", what);
  metric::Twin old{twin, {}};
  for (const auto label : labels) old.labels.emplace_back(label, label);
  const std::array<std::string_view, 2> values = {feed.source->type(), feed.extractor->type()};
  return metrics.family({name, metric::Kind::kCounter, "Scrapes that failed.", labels, {}, {old}})
      .counter(std::span(values).first(labels.size()));
}

}  // namespace

struct Scraper::State {
  /// A feed, and what its targets share.
  struct Stream {
    Feed feed;
    metric::Counter poll_errors, extract_errors;
    Nanos beat{1};
  };

  io::Loop& loop;
  Fleet& fleet;
  metric::Registry& metrics;
  const ScrapeOptions options;
  http::Client client;
  size_t seen = 0;
  std::string authorization;
  std::shared_ptr<tls::Context> unverified;

  std::vector<std::unique_ptr<Stream>> streams;
  std::shared_ptr<const void> owner;
  /// By stream and generation.
  std::map<std::pair<const Stream*, uint64_t>, std::unique_ptr<Target>> targets;
  std::shared_ptr<void> alive = std::make_shared<int>(0);  // expires with this; guards posted work
  std::shared_ptr<void> subscription;

  State(io::Loop& l, Fleet& f, metric::Registry& m, ScrapeOptions o)
      : loop(l), fleet(f), metrics(m), options(std::move(o)), client(l, client_options()) {}

  static const EngineMetrics* engine_of(const Endpoint& endpoint,
                                        const MetricsExtractor::Options& o) {
    const auto* label = endpoint.label(o.engine_label);
    const EngineMetrics* fallback = nullptr;
    for (const auto& engine : o.engines) {
      if (label && engine.name == *label) return &engine;
      if (engine.name == o.default_engine) fallback = &engine;
    }
    return fallback;
  }

  /// The context for `endpoint`'s page; null: it is fetched over plain HTTP.
  std::shared_ptr<tls::Context> tls_of(const Endpoint& endpoint, const MetricsSource::Options& o) {
    const auto& own = endpoint.spec().scheme;
    if (o.scheme.value_or(own) != "https") return nullptr;
    if (o.tls) return o.tls;
    if (own == "https" || options.upstream.chosen) return options.upstream.context;
    if (!unverified) {
      auto made = tls::Context::client({.verify = false}, tls::Metrics::of(metrics, "scraping"));
      if (!SOFT_CHECK(made)) return options.upstream.context;
      unverified = std::move(*made);
      log::warn(
          "metrics pages are fetched over https without verification; caCertPath of the "
          "metrics-data-source or --upstream-ca-file says whom to trust");
    }
    return unverified;
  }

  std::unique_ptr<Target> make_target(const Stream& stream, const EndpointPtr& endpoint) {
    const auto& source = stream.feed.source->options();
    const auto& what = stream.feed.extractor->options();
    const bool loads = stream.feed.extractor->reads_load();
    const EngineMetrics* engine = loads ? engine_of(*endpoint, what) : nullptr;
    if (loads && !engine) return nullptr;
    return std::make_unique<Target>(
        Target::Shared{loop, client, options, stream.beat, tls_of(*endpoint, source),
                       stream.poll_errors, stream.extract_errors, seen, authorization},
        endpoint, source, loads,
        loads ? PageReader(*engine) : PageReader(what.attributes, endpoint->spec().name));
  }

  void update(const SnapshotPtr& snapshot) {
    decltype(targets) next;
    const size_t beats = (snapshot->endpoints.size() + kStartedTogether - 1) / kStartedTogether;
    for (const auto& stream : streams) {
      const Nanos interval = stream->feed.source->options().interval.value_or(options.interval);
      stream->beat =
          std::max(interval / std::max<int64_t>(1, static_cast<int64_t>(beats)), Nanos(1));
      for (const auto& endpoint : snapshot->endpoints) {
        const std::pair key(stream.get(), endpoint->generation());
        if (const auto it = targets.find(key); it != targets.end()) {
          it->second->replace(endpoint);
          next[key] = std::move(it->second);
        } else if (auto target = make_target(*stream, endpoint)) {
          next[key] = std::move(target);
        }
      }
    }
    std::swap(targets, next);
  }
};

Scraper::Scraper(io::Loop& loop, Fleet& fleet, metric::Registry& metrics, ScrapeOptions options)
    : state_(std::make_unique<State>(loop, fleet, metrics, std::move(options))) {
  // Membership changes on a thread of its own.
  state_->subscription = fleet.subscribe(
      [state = state_.get(), weak = std::weak_ptr(state_->alive)](const SnapshotPtr&) {
        state->loop.post([state, weak] {
          if (weak.lock()) state->update(state->fleet.snapshot());
        });
      });
}

Scraper::~Scraper() = default;

void Scraper::configure(const std::vector<Feed>& feeds, std::shared_ptr<const void> owner) {
  state_->targets.clear();
  state_->streams.clear();
  for (const Feed& feed : feeds)
    state_->streams.push_back(std::make_unique<State::Stream>(State::Stream{
        feed, errors(state_->metrics, "poll", feed, {"source_type"}),
        errors(state_->metrics, "extract", feed, {"source_type", "extractor_type"})}));
  state_->owner = std::move(owner);
  state_->update(state_->fleet.snapshot());
}

void Scraper::authorize(std::string authorization) {
  state_->authorization = std::move(authorization);
}

size_t Scraper::seen() const {
  return state_->seen;
}

}  // namespace llmd::fleet
