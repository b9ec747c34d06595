#include "render/render_client.h"

#include "calls.h"
#include "server_calls.h"

#include "base/mutex.h"
#include "base/rng.h"
#include "fetch/questions.h"

#include <algorithm>
#include <deque>
#include <list>
#include <map>
#include <utility>

namespace llmd::render {

struct RenderClient::State {
  /// How servers of a kind are asked, and what is under way.
  struct Kind {
    std::unique_ptr<Protocol> protocol;
    std::deque<std::unique_ptr<ServerCall>> calls;
  };

  /// What is wanted of a server whenever it may be a new one.
  struct Warming {
    RenderServer& server;
    WarmUp what;
    std::unique_ptr<Warmer> warmer;
  };

  State(io::Loop& l, fleet::Resolver r, metric::Registry& m)
      : loop(l), resolver(std::move(r)), metrics(m), counted(Calls::of(m)) {
    http.protocol = http_protocol(l);
    grpc.protocol = grpc_protocol(l);
  }

  /// The server by its URL; those of earlier configurations stay.
  RenderServer& server_of(const fleet::EndpointSpec& spec) {
    const MutexLock lock(mutex);
    auto& server = servers[spec.scheme + "://" + spec.name];
    if (!server) server = std::make_unique<RenderServer>(spec, resolver, context_for(spec));
    return *server;
  }

  std::shared_ptr<tls::Context> context_for(const fleet::EndpointSpec& spec) {
    if (spec.scheme != "https") return nullptr;
    auto made = tls::Context::client({}, tls::Metrics::of(metrics, "render"));
    return made ? std::move(*made) : nullptr;
  }

  Kind& kind_of(const RenderServer& server) { return server.grpc ? grpc : http; }

  void begin(uint64_t ticket, RenderServer& server, Question question) {
    auto& [protocol, calls] = kind_of(server);
    const auto idle = std::ranges::find_if(calls, [](const auto& c) { return !c->active(); });
    ServerCall& call = idle != calls.end() ? **idle : *calls.emplace_back(protocol->call());
    call.ask(server, std::move(question), [this, ticket, &server](Rendered outcome, bool reached) {
      if (!reached) leave_alone(server);
      counted.of(outcome.has_value()).add();
      questions.answer(ticket, std::move(outcome), loop.clock().now());
    });
  }

  /// What comes back may be a new server.
  void leave_alone(RenderServer& server) {
    server.paused_until = (loop.clock().now() + kPause).time_since_epoch().count();
    for (auto& warming : warmings)
      if (&warming.server == &server) warm_up(warming);
  }

  void warm_up(RenderServer& server, WarmUp what) {
    auto known = std::ranges::find_if(warmings, [&](const Warming& one) {
      return &one.server == &server && one.what.model == what.model;
    });
    if (known == warmings.end())
      known = warmings.insert(known, Warming{server, std::move(what), nullptr});
    warm_up(*known);
  }
  /// Unless that is under way.
  void warm_up(Warming& warming) {
    auto& [server, what, warmer] = warming;
    if (!warmer || warmer->done()) warmer = kind_of(server).protocol->warm_up(server, what);
  }

  io::Loop& loop;
  const fleet::Resolver resolver;
  metric::Registry& metrics;
  const Calls counted;
  Kind http, grpc;                                         // of the loop
  std::list<Warming> warmings;                             // of the loop
  std::shared_ptr<void> alive = std::make_shared<int>(0);  // expires with this; guards posted work

  fetch::Questions<Rendered> questions{kQuestionsMax};

  Mutex mutex;
  std::map<std::string, std::unique_ptr<RenderServer>> servers LLMD_GUARDED_BY(mutex);
};

RenderClient::RenderClient(io::Loop& loop, fleet::Resolver resolver, metric::Registry& metrics)
    : state_(std::make_unique<State>(loop, std::move(resolver), metrics)) {}

RenderClient::~RenderClient() = default;

void RenderClient::warm_up(const fleet::EndpointSpec& spec, WarmUp of) {
  State& s = *state_;
  s.loop.post([&s, weak = std::weak_ptr(s.alive), &server = s.server_of(spec),
               of = std::move(of)]() mutable {
    if (weak.lock()) s.warm_up(server, std::move(of));
  });
}

Result<uint64_t> RenderClient::ask(const fleet::EndpointSpec& spec, Question question,
                                   schedule::Signal resume) {
  State& s = *state_;
  const TimePoint now = s.loop.clock().now();
  RenderServer& server = s.server_of(spec);
  if (now.time_since_epoch().count() < server.paused_until)
    return fail(Code::kServiceUnavailable, "render server " + spec.name + " cannot be reached");
  const auto ticket = s.questions.ask(std::move(resume), now);
  if (!ticket) return fail(Code::kResourceExhausted, "too many prompts are being rendered");
  s.loop.post([&s, weak = std::weak_ptr(s.alive), ticket = *ticket, &server,
               q = std::move(question)]() mutable {
    if (weak.lock()) s.begin(ticket, server, std::move(q));
  });
  return *ticket;
}

Rendered RenderClient::take(uint64_t ticket) {
  auto outcome = state_->questions.take(ticket);
  if (!outcome) return fail(Code::kInternal, "there is no rendered prompt");
  return std::move(*outcome);
}

RenderService::RenderService(size_t index, uint64_t seed, metric::Registry& metrics)
    : thread_("render", index, seed), client_(thread_.loop(), fleet::system_resolver(), metrics) {
  thread_.start();
}

class RenderService::OfServer final : public PromptRenderer {
 public:
  OfServer(std::shared_ptr<RenderService> service, fleet::EndpointSpec server)
      : service_(std::move(service)), server_(std::move(server)) {}
  void warm_up(const WarmUp& of) override { service_->client_.warm_up(server_, of); }
  Result<uint64_t> ask(Question question, schedule::Signal resume) override {
    return service_->client_.ask(server_, std::move(question), std::move(resume));
  }
  Rendered take(uint64_t ticket) override { return service_->client_.take(ticket); }

 private:
  const std::shared_ptr<RenderService> service_;
  const fleet::EndpointSpec server_;
};

std::shared_ptr<PromptRenderer> RenderService::of(fleet::EndpointSpec server) {
  return std::make_shared<OfServer>(shared_from_this(), std::move(server));
}

}  // namespace llmd::render
