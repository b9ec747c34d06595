#include "frontend/proxy.h"

#include "proxy_handler.h"

#include "base/check.h"
#include "base/mutex.h"
#include "io/loop_thread.h"

#include <future>

namespace llmd::frontend {

struct Proxy::State {
  State(route::Director& d, fleet::Fleet& f, ProxyOptions o, const Clock& c)
      : director(d), fleet(f), options(std::move(o)), clock(c) {}

  /// Closes the kept connections to endpoints that are gone.
  struct Purger final : fleet::MembershipListener {
    explicit Purger(State& s) : state(s) {}
    void on_removed(const fleet::EndpointPtr& endpoint) override {
      for (auto& worker : state.workers)
        worker->thread.loop().post([endpoint, &proxy = *worker->proxy] { proxy.purge(*endpoint); });
    }
    State& state;
  };

  struct Worker {
    Worker(size_t index, route::Director& director, const ProxyOptions& options,
           std::shared_ptr<io::PeerLimit> peers, std::shared_ptr<io::ByteBudget> budget,
           const Clock& clock)
        : thread("proxy-" + std::to_string(index), index,
                 options.seed ? *options.seed + index : random_seed(), clock),
          proxy(std::make_unique<ProxyLoop>(thread.loop(), director, options, budget)) {
      http::ServerOptions server;
      server.host = options.host;
      server.port = options.port;
      server.shared_port = true;
      server.http2 = true;
      server.streams_max = options.streams_max;
      server.resets_per_second = options.resets_per_second;
      server.control_frames_per_second = options.control_frames_per_second;
      server.connections_max = options.connections_max;
      server.head_bytes_max = options.head_bytes_max;
      server.headers_max = options.headers_max;
      server.peer_limit = std::move(peers);
      server.body_budget = std::move(budget);
      server.probe = options.probe;
      server.tls = options.tls;
      server.body_bytes_max = options.body_bytes_max;
      server.head_timeout = options.head_timeout;
      server.body_timeout = options.body_timeout;
      server.request_timeout = options.request_timeout;
      server.idle_timeout = options.idle_timeout;
      server.write_timeout = options.write_timeout;
      proxy->server = std::make_unique<http::Server>(
          thread.loop(), std::move(server),
          [&shared = *proxy] { return std::make_unique<ProxyHandler>(shared); });
    }
    io::LoopThread thread;
    std::unique_ptr<ProxyLoop> proxy;
  };

  route::Director& director;
  fleet::Fleet& fleet;
  ProxyOptions options;
  const Clock& clock;
  std::vector<std::unique_ptr<Worker>> workers;
  Mutex changing;  // held while `workers` is emptied, and by set_credentials()
  std::shared_ptr<void> membership;
  bool running = false;
};

Proxy::Proxy(route::Director& director, fleet::Fleet& fleet, ProxyOptions options,
             const Clock& clock)
    : state_(std::make_unique<State>(director, fleet, std::move(options), clock)) {
  CHECK(state_->options.loops > 0);
}

Proxy::~Proxy() {
  stop(Nanos(0));
}

Status Proxy::start() {
  State& state = *state_;
  std::shared_ptr<io::PeerLimit> peers;
  if (const size_t most = state.options.connections_per_peer; most > 0)
    peers = std::make_shared<io::PeerLimit>(most, random_seed());
  const auto budget = std::make_shared<io::ByteBudget>(state.options.buffered_bytes_max);
  // The loops share a port among themselves, not with another process that serves there.
  LLMD_TRY_ASSIGN(const auto address,
                  io::SocketAddress::parse(state.options.host, state.options.port));
  LLMD_TRY(io::listen_tcp(address));
  for (size_t i = 0; i < state.options.loops; ++i) {
    auto worker = std::make_unique<State::Worker>(i, state.director, state.options, peers, budget,
                                                  state.clock);
    LLMD_TRY(worker->proxy->server->listen());
    state.options.port = worker->proxy->server->port();  // the same for all when it was 0
    state.workers.push_back(std::move(worker));
  }
  // Twice the clients, for their upstream connections, and some for everything else.
  if (state.options.connections_max > 0)
    io::raise_file_limit(2 * state.options.connections_max * state.options.loops + 1000);
  else
    io::raise_file_limit(0);
  for (auto& worker : state.workers) worker->thread.start();
  state.running = true;
  state.membership = state.fleet.listen(std::make_shared<State::Purger>(state));
  return {};
}

void Proxy::set_credentials(const CredentialsPtr& credentials) {
  const MutexLock lock(state_->changing);
  // A copy for each loop: they share no counter of references.
  for (auto& worker : state_->workers)
    worker->thread.loop().post(
        [&proxy = *worker->proxy, own = std::make_shared<const Credentials>(*credentials)] {
          proxy.credentials = own;
        });
}

uint16_t Proxy::port() const {
  return state_->options.port;
}

void Proxy::stop(Nanos grace) {
  State& state = *state_;
  if (std::exchange(state.running, false)) {
    state.membership.reset();
    state.director.begin_drain();
    std::vector<std::future<void>> stopped;
    for (auto& worker : state.workers) {
      auto done = std::make_shared<std::promise<void>>();
      stopped.push_back(done->get_future());
      worker->thread.loop().post([&server = *worker->proxy->server, grace, done] {
        server.stop(grace, [done] { done->set_value(); });
      });
    }
    for (auto& each : stopped) each.wait();
    for (auto& worker : state.workers) worker->thread.stop();
  }
  const MutexLock lock(state.changing);
  for (auto& worker : state.workers) worker->proxy.reset();
  state.workers.clear();
}

size_t Proxy::open_requests() const {
  size_t sum = 0;
  for (const auto& worker : state_->workers) sum += worker->proxy->server->open_exchanges();
  return sum;
}

}  // namespace llmd::frontend
