#include "frontend/ext_proc.h"

#include "ext_proc_call.h"

#include "base/check.h"
#include "io/accept.h"
#include "io/loop_thread.h"

#include <future>

namespace llmd::frontend {

using ext_proc::ExtProcCall;
using ext_proc::ExtProcLoop;

namespace ext_proc {
namespace {

constexpr std::string_view kService = "envoy.service.ext_proc.v3.ExternalProcessor";
constexpr double kStreamBuckets[] = {.001, .005, .01, .05, .1, .5, 1, 5, 10, 30, 60, 120, 300, 600};

}  // namespace

StreamMetrics::StreamMetrics(metric::Registry& registry, bool enabled) {
  buffers_refused =
      registry
          .family({"llmd_epp_buffers_refused_total",
                   metric::Kind::kCounter,
                   "Requests answered with 503 because --max-buffered-bytes was reached.",
                   {},
                   {},
                   {}})
          .counter({});
  if (!enabled) return;
  in_flight_ = registry
                   .family({"llm_d_epp_extproc_streams_inflight",
                            metric::Kind::kGauge,
                            "Open ext-proc streams.",
                            {},
                            {},
                            {}})
                   .gauge({});
  duration_ = registry
                  .family({"llm_d_epp_extproc_stream_duration_seconds",
                           metric::Kind::kHistogram,
                           "How long ext-proc streams were open.",
                           {},
                           kStreamBuckets,
                           {}})
                  .histogram({});
  auto& ends = registry.family({"llm_d_epp_extproc_streams_total",
                                metric::Kind::kCounter,
                                "Ext-proc streams that ended, by gRPC status.",
                                {"code"},
                                {},
                                {}});
  for (size_t i = 0; i < by_code_.size(); ++i)
    by_code_[i] = ends.counter(std::array{grpc::status_name(static_cast<grpc::StatusCode>(i))});
}

void StreamMetrics::ended(grpc::StatusCode code, Nanos duration) const {
  in_flight_.add(-1);
  duration_.observe(seconds(duration));
  by_code_[static_cast<size_t>(code)].add();
}

ExtProcLoop::ExtProcLoop(io::Loop& l, route::Director& shared, metric::Registry& registry,
                         const ExtProcOptions& o, io::ByteBudget& b)
    : loop(l),
      options(o),
      budget(b),
      metrics(registry, o.stream_metrics),
      director(shared, {.executor = l,
                        .rng = l.rng(),
                        .index = l.index(),
                        .after =
                            [this](Nanos delay, std::move_only_function<void()> work) {
                              delayed_.run_after(delay, std::move(work));
                            }}),
      delayed_(l) {
  std::vector<grpc::Method> methods;
  methods.push_back({"/" + std::string(kService) + "/Process", [this](grpc::Call& call) {
                       return std::make_unique<ExtProcCall>(*this, call);
                     }});
  if (options.health_checking) {
    health =
        std::make_unique<grpc::Health>([](std::string_view) { return grpc::Serving::kServing; },
                                       std::vector{std::string(kService)});
    for (auto& method : health->methods()) methods.push_back(std::move(method));
  }
  server = std::make_unique<grpc::Server>(loop, options.limits, std::move(methods), budget,
                                          grpc::ServerMetrics::of(registry));
}

ExtProcLoop::~ExtProcLoop() = default;

}  // namespace ext_proc

struct ExtProc::State final : io::Pollable {
  State(route::Director& d, metric::Registry& m, ExtProcOptions o, const Clock& c)
      : director(d),
        metrics(m),
        options(std::move(o)),
        clock(c),
        budget(options.buffered_bytes_max) {}

  struct Worker {
    Worker(size_t index, State& state)
        : thread("epp-" + std::to_string(index), index,
                 state.options.seed ? *state.options.seed + index : random_seed(), state.clock),
          calls(std::make_unique<ExtProcLoop>(thread.loop(), state.director, state.metrics,
                                              state.options, state.budget)) {}
    io::LoopThread thread;
    std::unique_ptr<ExtProcLoop> calls;
  };

  io::Loop& accepting_loop() { return workers[0]->thread.loop(); }

  void on_ready(uint32_t) override { accept_all(); }

  /// Runs on the first loop.
  void accept_all() {
    while (listener) {
      bool exhausted = false;
      io::Fd fd = io::accept_next(listener, exhausted);
      if (exhausted) accept_retry->arm(io::kAcceptRetry, [this] { accept_all(); });
      if (!fd) return;
      least_loaded().hand_over(std::move(fd));
    }
  }

  grpc::Server& least_loaded() {
    grpc::Server* least = nullptr;
    for (auto& worker : workers) {
      auto& server = *worker->calls->server;
      const auto load = std::pair(server.connections(), server.open_calls());
      if (!least || load < std::pair(least->connections(), least->open_calls())) least = &server;
    }
    return *least;
  }

  void close_listener() {
    if (!listener) return;
    accepting_loop().forget(*this);
    listener.reset();
    accept_retry.reset();
  }

  route::Director& director;
  metric::Registry& metrics;
  ExtProcOptions options;
  const Clock& clock;
  io::ByteBudget budget;
  std::vector<std::unique_ptr<Worker>> workers;
  io::Fd listener;
  std::unique_ptr<io::Timer> accept_retry;
  bool running = false;
};

ExtProc::ExtProc(route::Director& director, metric::Registry& metrics, ExtProcOptions options,
                 const Clock& clock)
    : state_(std::make_unique<State>(director, metrics, std::move(options), clock)) {
  CHECK(state_->options.loops > 0);
}

ExtProc::~ExtProc() {
  stop(Nanos(0));
}

Status ExtProc::start() {
  State& state = *state_;
  LLMD_TRY_ASSIGN(auto address, io::SocketAddress::parse(state.options.host, state.options.port));
  LLMD_TRY_ASSIGN(state.listener, io::listen_tcp(address));
  io::set_no_delay(state.listener.get());  // accepted sockets inherit it
  state.options.port = io::SocketAddress::of(state.listener.get()).port();
  for (size_t i = 0; i < state.options.loops; ++i)
    state.workers.push_back(std::make_unique<State::Worker>(i, state));
  state.accept_retry = std::make_unique<io::Timer>(state.accepting_loop());
  state.accepting_loop().watch(state.listener.get(), state);
  for (auto& worker : state.workers) worker->thread.start();
  state.running = true;
  return {};
}

uint16_t ExtProc::port() const {
  return state_->options.port;
}

void ExtProc::stop(Nanos grace) {
  State& state = *state_;
  if (std::exchange(state.running, false)) {
    state.director.begin_drain();
    std::promise<void> closed;
    state.accepting_loop().post([&] {
      state.close_listener();
      closed.set_value();
    });
    closed.get_future().wait();
    std::vector<std::future<void>> stopped;
    for (auto& worker : state.workers) {
      auto done = std::make_shared<std::promise<void>>();
      stopped.push_back(done->get_future());
      worker->thread.loop().post([&server = *worker->calls->server, grace, done] {
        server.stop(grace, [done] { done->set_value(); });
      });
    }
    for (auto& each : stopped) each.wait();
    for (auto& worker : state.workers) worker->thread.stop();
  }
  if (!state.workers.empty()) state.close_listener();
  for (auto& worker : state.workers) worker->calls.reset();
  state.workers.clear();
}

size_t ExtProc::open_streams() const {
  size_t sum = 0;
  for (const auto& worker : state_->workers) sum += worker->calls->server->open_calls();
  return sum;
}

size_t ExtProc::connections(size_t index) const {
  return state_->workers[index]->calls->server->connections();
}

}  // namespace llmd::frontend
