#include "sim/server.h"

#include "connection.h"
#include "endpoint.h"

#include "base/rng.h"
#include "http/server.h"
#include "io/loop_thread.h"
#include "io/socket.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <future>

namespace llmd::sim {

struct Server::State {
  State(io::Loop& loop, const EndpointPlan& plan, const ModelClock& clock,
        std::shared_ptr<tls::Context> tls, kv_events::ZmqContext* zmq)
      : endpoint(loop, plan, clock, zmq), http(loop, options(plan, std::move(tls)), [this] {
          return std::make_unique<Connection>(endpoint);
        }) {}

  static http::ServerOptions options(const EndpointPlan& plan, std::shared_ptr<tls::Context> tls) {
    http::ServerOptions o;
    o.host = plan.address;
    o.port = plan.port;
    o.body_bytes_max = uint64_t(plan.config.max_request_body_size_mb) << 20;
    o.idle_timeout = std::chrono::hours(1);
    o.http2 = true;
    o.tls = std::move(tls);
    return o;
  }

  Endpoint endpoint;
  http::Server http;  // goes first: its connections use the endpoint
};

Server::Server(io::Loop& loop, const EndpointPlan& plan, const ModelClock& clock,
               std::shared_ptr<tls::Context> tls, kv_events::ZmqContext* zmq)
    : state_(std::make_unique<State>(loop, plan, clock, std::move(tls), zmq)) {}

Server::~Server() = default;

Status Server::listen() {
  LLMD_TRY(state_->http.listen());
  Endpoint& e = state_->endpoint;
  e.config.port = state_->http.port();
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value ? value : "");
  };
  if (const std::string pod = variable("POD_NAME"); !pod.empty()) {
    e.identity_headers.emplace_back("x-inference-pod", pod);
    e.identity_headers.emplace_back("x-inference-port", fmt::to_string(e.config.port));
  }
  if (const std::string ns = variable("POD_NAMESPACE"); !ns.empty())
    e.identity_headers.emplace_back("x-inference-namespace", ns);
  return e.publish_events();
}

uint16_t Server::port() const {
  return state_->http.port();
}
const Counters& Server::counters() const {
  return state_->endpoint.engine.counters();
}

void Server::stop(Nanos grace, std::move_only_function<void()> done) {
  state_->endpoint.draining = true;
  state_->http.stop(grace, std::move(done));
}

namespace {

/// The certificate that all servers of a process share; null: plain HTTP.
Result<std::shared_ptr<tls::Context>> make_tls(const ServerConfig& config) {
  if (!config.secure()) return nullptr;
  tls::ServerOptions options;
  options.protocols = {tls::kHttp2, tls::kHttp1};
  options.certificate_file = config.ssl_certfile;
  options.key_file = config.ssl_keyfile;
  if (config.self_signed_certs) {
    LLMD_TRY_ASSIGN(options.pair,
                    tls::make_self_signed("llm-d Inference Simulator", real_clock().wall()));
  }
  auto context = tls::Context::server(std::move(options));
  if (!context) return fail(std::move(context).error().in("ssl-certfile, ssl-keyfile"));
  return context;
}

}  // namespace

struct Fleet::Shard {
  Shard(size_t index, double time_scale)
      : clock(real_clock(), time_scale),
        thread(fmt::format("sim-{}", index), index, random_seed()) {}

  ModelClock clock;
  io::LoopThread thread;
  std::vector<std::unique_ptr<Server>> servers;  // destroyed before the loop, once it has stopped
};

Fleet::Fleet(std::vector<EndpointPlan> plans) : plans_(std::move(plans)) {}

Fleet::~Fleet() {
  for (const auto& shard : shards_) shard->thread.stop();
}

Result<std::unique_ptr<Fleet>> Fleet::start(const Settings& settings) {
  LLMD_TRY_ASSIGN(auto plans, plan_endpoints(settings));
  LLMD_TRY_ASSIGN(const auto tls, make_tls(plans.front().config));
  io::raise_file_limit(plans.size() + 1024);
  std::unique_ptr<Fleet> fleet(new Fleet(std::move(plans)));
  const auto publishes = [](const EndpointPlan& p) { return !p.config.kv_events.endpoint.empty(); };
  if (const auto publishers = std::ranges::count_if(fleet->plans_, publishes); publishers > 0)
    fleet->zmq_ = std::make_unique<kv_events::ZmqContext>(static_cast<int>(2 * publishers));
  for (size_t i = 0; i < settings.loops; ++i)
    fleet->shards_.push_back(std::make_unique<Shard>(i, settings.time_scale));
  for (size_t i = 0; i < fleet->plans_.size(); ++i) {
    Shard& shard = *fleet->shards_[i % settings.loops];
    EndpointPlan& plan = fleet->plans_[i];
    shard.servers.push_back(
        std::make_unique<Server>(shard.thread.loop(), plan, shard.clock, tls, fleet->zmq_.get()));
    LLMD_TRY(shard.servers.back()->listen());
    plan.port = shard.servers.back()->port();
  }
  for (const auto& shard : fleet->shards_) shard->thread.start();
  return fleet;
}

void Fleet::stop(Nanos grace) {
  std::vector<std::promise<void>> drained(shards_.size());
  std::vector<size_t> left;
  for (const auto& shard : shards_) left.push_back(shard->servers.size());
  for (size_t i = 0; i < shards_.size(); ++i) {
    if (left[i] == 0) continue;
    shards_[i]->thread.loop().post([&, i] {
      for (const auto& server : shards_[i]->servers)
        server->stop(grace, [&, i] {
          if (--left[i] == 0) drained[i].set_value();
        });
    });
  }
  for (size_t i = 0; i < shards_.size(); ++i) {
    if (!shards_[i]->servers.empty()) drained[i].get_future().wait();
    shards_[i]->thread.stop();
  }
}

}  // namespace llmd::sim
