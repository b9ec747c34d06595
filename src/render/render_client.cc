#include "render/render_client.h"

#include "answer.h"
#include "calls.h"

#include "base/log.h"
#include "base/mutex.h"
#include "base/rng.h"
#include "base/text.h"
#include "fetch/post.h"
#include "fetch/questions.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <map>
#include <utility>

namespace llmd::render {
namespace {

constexpr std::string_view kChat = "/v1/chat/completions/render";

std::string warm_up_body(std::string_view model, bool with_image) {
  constexpr std::string_view kImage =
      R"([{"type":"image_url","image_url":{"url":"data:image/png;base64,)"
      "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5Erk"
      R"(Jggg=="}}])";  // of one pixel
  std::string body = R"({"model":")";
  append_json_escaped(body, model);
  body += R"(","messages":[{"role":"user","content":)";
  body += with_image ? kImage : R"("warmup")";
  return body + "}]}";
}

using Outcome = Result<std::vector<RenderedPrompt>>;

}  // namespace

struct RenderClient::State {
  /// A server with when to try it again.
  struct Server {
    Server(const fleet::EndpointSpec& spec, const fleet::Resolver& resolver,
           std::shared_ptr<tls::Context> tls)
        : http(spec, resolver, std::move(tls)) {}
    fetch::Server http;
    std::atomic<int64_t> paused_until{0};
  };

  /// A call under way, or a free one.
  struct Call final : fetch::Post {
    explicit Call(State& s) : Post(s.loop, s.client, kAnswerBytesMax), state(s) {}

    void ask(uint64_t of, Server& to, Question question) {
      ticket = of;
      server = &to;
      chat = question.chat;
      answer.clear();
      start(to.http, chat ? kChat : "/v1/completions/render", std::move(question.body),
            question.timeout);
    }
    void on_answer(std::string_view bytes) override { answer += bytes; }
    void on_ended(std::string_view why, bool reached) override {
      if (!reached)
        server->paused_until = (state.loop.clock().now() + kPause).time_since_epoch().count();
      state.settle(ticket, why.empty()
                               ? read_answer(answer, chat)
                               : Outcome(fail(Code::kServiceUnavailable, std::string(why))));
    }

    State& state;
    uint64_t ticket = 0;
    Server* server = nullptr;
    bool chat = false;
    std::string answer;
  };

  /// A chat until there is an answer to one, then one with an image. Nobody waits for it, and it
  /// is not counted.
  struct Warmer final : fetch::Post {
    Warmer(State& s, Server& to, WarmUp of)
        : Post(s.loop, s.client, kAnswerBytesMax), server(to), what(std::move(of)), timer(s.loop) {
      ask();
    }
    void ask() { start(server.http, kChat, warm_up_body(what.model, false), what.timeout); }
    void on_ended(std::string_view why, bool) override {
      if (with_image || ++tries == kWarmUpsMax) {
        if (!why.empty())
          log::warn("a render server could not be warmed up",
                    {{"server", server.http.name()}, {"image", with_image}, {"why", why}});
        done = true;
      } else if (!why.empty()) {
        timer.arm(kWarmUpPause, [this] { ask(); });
      } else {
        with_image = true;
        start(server.http, kChat, warm_up_body(what.model, true), what.media_timeout);
      }
    }

    Server& server;
    const WarmUp what;
    io::Timer timer;
    int tries = 0;
    bool with_image = false;
    bool done = false;
  };

  State(io::Loop& l, fleet::Resolver r, metric::Registry& m)
      : loop(l), resolver(std::move(r)), metrics(m), client(l), counted(Calls::of(m)) {}

  /// The server by its URL; those of earlier configurations stay.
  Server& server_of(const fleet::EndpointSpec& spec) {
    const MutexLock lock(mutex);
    auto& server = servers[spec.scheme + "://" + spec.name];
    if (!server) server = std::make_unique<Server>(spec, resolver, context_for(spec));
    return *server;
  }

  std::shared_ptr<tls::Context> context_for(const fleet::EndpointSpec& spec) {
    if (spec.scheme != "https") return nullptr;
    auto made = tls::Context::client({}, tls::Metrics::of(metrics, "render"));
    return made ? std::move(*made) : nullptr;
  }

  void begin(uint64_t ticket, Server& server, Question question) {
    const auto idle = std::ranges::find_if(calls, [](const auto& c) { return !c->active(); });
    Call& call = idle != calls.end() ? **idle : *calls.emplace_back(std::make_unique<Call>(*this));
    call.ask(ticket, server, std::move(question));
  }

  void settle(uint64_t ticket, Outcome outcome) {
    counted.of(outcome.has_value()).add();
    questions.answer(ticket, std::move(outcome), loop.clock().now());
  }

  void warm_up(Server& server, WarmUp of) {
    std::erase_if(warmers, [](const auto& warmer) { return warmer->done; });
    warmers.push_back(std::make_unique<Warmer>(*this, server, std::move(of)));
  }

  io::Loop& loop;
  const fleet::Resolver resolver;
  metric::Registry& metrics;
  http::Client client;
  std::vector<std::unique_ptr<Warmer>> warmers;  // of the loop
  const Calls counted;
  std::deque<std::unique_ptr<Call>> calls;                 // of the loop
  std::shared_ptr<void> alive = std::make_shared<int>(0);  // expires with this; guards posted work

  fetch::Questions<Outcome> questions{kQuestionsMax};

  Mutex mutex;
  std::map<std::string, std::unique_ptr<Server>> servers LLMD_GUARDED_BY(mutex);
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
  State::Server& server = s.server_of(spec);
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

Result<std::vector<RenderedPrompt>> RenderClient::take(uint64_t ticket) {
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
  void warm_up(WarmUp of) override { service_->client_.warm_up(server_, std::move(of)); }
  Result<uint64_t> ask(Question question, schedule::Signal resume) override {
    return service_->client_.ask(server_, std::move(question), std::move(resume));
  }
  Result<std::vector<RenderedPrompt>> take(uint64_t ticket) override {
    return service_->client_.take(ticket);
  }

 private:
  const std::shared_ptr<RenderService> service_;
  const fleet::EndpointSpec server_;
};

std::shared_ptr<PromptRenderer> RenderService::of(fleet::EndpointSpec server) {
  return std::make_shared<OfServer>(shared_from_this(), std::move(server));
}

}  // namespace llmd::render
