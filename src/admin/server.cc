#include "admin/server.h"

#include "decision_states.h"
#include "endpoint_states.h"
#include "page.h"
#include "plugin_graph.h"
#include "plugin_states.h"

#include "base/headers.h"
#include "base/secret.h"
#include "base/text.h"
#include "http/server.h"
#include "io/socket.h"

#include <algorithm>
#include <array>
#include <iterator>

namespace llmd::admin {
namespace {

constexpr std::string_view kTextType = "text/plain; charset=utf-8";
constexpr std::string_view kMetricsType = "text/plain; version=0.0.4; charset=utf-8";
constexpr HeaderField kNoGuessing{"X-Content-Type-Options", "nosniff"};
constexpr HeaderField kNotKept{"Cache-Control", "no-store"};
/// The page loads its own files and asks this port, nothing else.
constexpr HeaderField kPagePolicy{
    "Content-Security-Policy",
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"};
constexpr HeaderField kNoReferrer{"Referrer-Policy", "no-referrer"};

void say(http::Exchange& exchange, int status, std::string_view type, std::string_view body) {
  exchange.respond(status, {{"Content-Type", type}, kNoGuessing, kNotKept}, body);
}
void say(http::Exchange& exchange, int status, std::string_view line) {
  say(exchange, status, kTextType, std::string(line) + "\n");
}
void say_json(http::Exchange& exchange, std::string_view body) {
  say(exchange, 200, "application/json", body);
}

struct File {
  std::string_view path, type, content;
};
constexpr File kFiles[] = {{"/", "text/html; charset=utf-8", kPageHtml},
                           {"/page.css", "text/css; charset=utf-8", kPageCss},
                           {"/page.js", "text/javascript; charset=utf-8", kPageScript},
                           {"/icon.svg", "image/svg+xml", kPageIcon}};

const File* file_at(std::string_view path) {
  const auto* found = std::ranges::find(kFiles, path, &File::path);
  return found == std::end(kFiles) ? nullptr : found;
}

/// Whether a Host header has an address or "localhost". A site elsewhere can point a name of its
/// own at this machine and have a browser here ask under that name; it then reads the answer.
bool is_local_name(std::string_view host) {
  if (const auto colon = host.rfind(':'); colon != host.npos && !host.ends_with(']'))
    host = host.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  return equals_ignore_case(host, "localhost") || io::SocketAddress::parse(std::string(host), 0);
}

http::ServerOptions listener(const std::string& host, uint16_t port) {
  http::ServerOptions options;
  options.host = host;
  options.port = port;
  options.connections_max = 256;
  options.body_bytes_max = 0;
  return options;
}

}  // namespace

Result<std::string> read_token_file(const std::string& path) {
  LLMD_TRY_ASSIGN(const auto text, read_secret_file(path, 2 * kSecretBytesMax));
  return only_secret(text, path);
}

struct Server::State {
  metric::Registry& metrics;
  const route::Director& director;
  io::Loop& loop;
  const std::string debug_token;
  std::function<std::string()> ready;
  std::unique_ptr<http::Server> main;
  std::unique_ptr<http::Server> health_only_server;

  class Handler final : public http::RequestHandler {
   public:
    Handler(State& state, bool health_only) : state_(state), health_only_(health_only) {}
    void on_request_end(http::Exchange& exchange, std::string_view) override {
      state_.answer(exchange, *this);
    }
    void on_abort(http::Exchange&, http::AbortCause) override { waiting_.reset(); }

    bool health_only() const { return health_only_; }
    /// For an answer that comes later; expires when nobody waits for it any more.
    std::weak_ptr<http::Exchange> later(http::Exchange& exchange) {
      waiting_ = std::shared_ptr<http::Exchange>(&exchange, [](http::Exchange*) {});
      return waiting_;
    }

   private:
    State& state_;
    const bool health_only_;
    std::shared_ptr<http::Exchange> waiting_;
  };

  enum class For : uint8_t { kProbes, kEverybody, kTrusted };
  struct Page {
    std::string_view path;
    For readers;
    void (State::*answer)(http::Exchange&, Handler&) const;
  };
  static const std::array<Page, 9> kPages;

  std::unique_ptr<http::Server> make(http::ServerOptions options, bool health_only) {
    return std::make_unique<http::Server>(loop, std::move(options), [this, health_only] {
      return std::make_unique<Handler>(*this, health_only);
    });
  }

  /// Whether the peer may see the /debug pages.
  bool trusted(const http::Exchange& exchange) const {
    const auto& headers = exchange.head().headers;
    if (debug_token.empty())
      return exchange.peer().is_loopback() && is_local_name(headers.get("host"));
    return same_secret(bearer_token(headers.get("authorization")), debug_token);
  }

  void refuse(http::Exchange& exchange) const {
    if (debug_token.empty())
      return say(exchange, 403,
                 "debug pages answer on the loopback interface only, asked for by address or as "
                 "localhost; --admin-token-file opens them to others");
    exchange.respond(401,
                     {{"Content-Type", kTextType}, kNoGuessing, {"WWW-Authenticate", "Bearer"}},
                     "a bearer token is needed\n");
  }

  void answer(http::Exchange& exchange, Handler& handler) const {
    const auto path = exchange.head().path();
    const auto method = exchange.head().method;
    const auto* page = std::ranges::find(kPages, path, &Page::path);
    const File* file = file_at(path);
    const bool known = page != kPages.end() || file;
    if (!known || (handler.health_only() && (file || page->readers != For::kProbes)))
      return say(exchange, 404, "not found");
    if (method != "GET" && method != "HEAD")
      return exchange.respond(405, {{"Content-Type", kTextType}, kNoGuessing, {"Allow", "GET"}},
                              "method not allowed\n");
    if (file) return show(exchange, *file);
    if (page->readers == For::kTrusted && !trusted(exchange)) return refuse(exchange);
    (this->*page->answer)(exchange, handler);
  }

  static void show(http::Exchange& exchange, const File& file) {
    exchange.respond(200,
                     {{"Content-Type", file.type},
                      {"Cache-Control", "no-cache"},
                      kNoGuessing,
                      kPagePolicy,
                      kNoReferrer},
                     file.content);
  }

  void alive(http::Exchange& exchange, Handler&) const { say(exchange, 200, "ok"); }

  void readiness(http::Exchange& exchange, Handler&) const {
    const std::string why = ready();
    why.empty() ? say(exchange, 200, "ok") : say(exchange, 503, why);
  }

  void metrics_page(http::Exchange& exchange, Handler&) const {
    say(exchange, 200, kMetricsType, metrics.render());
  }

  void endpoints(http::Exchange& exchange, Handler&) const {
    say_json(exchange, endpoint_states(*director.fleet().snapshot(), loop.clock().now()));
  }

  void plugins(http::Exchange& exchange, Handler&) const {
    const auto pipeline = director.pipeline();
    if (!pipeline) return say(exchange, 503, "no configuration is loaded");
    say_json(exchange, plugin_graph(*pipeline));
  }

  void states(http::Exchange& exchange, Handler&) const {
    const auto pipeline = director.pipeline();
    if (!pipeline) return say(exchange, 503, "no configuration is loaded");
    say_json(exchange, plugin_states(*pipeline, loop.clock().wall()));
  }

  void flow(http::Exchange& exchange, Handler&) const {
    const auto pipeline = director.pipeline();
    const std::string state =
        pipeline && pipeline->admission ? pipeline->admission->dump_state() : std::string();
    say_json(exchange, state.empty() ? R"({"bands":[]})" : state);
  }

  void decisions(http::Exchange& exchange, Handler& handler) const {
    auto query = parse_decision_query(exchange.head().query());
    if (!query) return say(exchange, 400, query.error().message);
    if (!director.keeps_decisions())
      return say(exchange, 404, "no decisions are kept: --decision-history is 0");
    director.find_decisions(*query, loop,
                            [waiting = handler.later(exchange), id = query->request_id,
                             &clock = loop.clock()](route::Director::Decisions found) {
                              if (const auto reader = waiting.lock())
                                show_decisions(*reader, id, std::move(found), clock);
                            });
  }

  /// Those of one request from its first try on, or the newest of all first.
  static void show_decisions(http::Exchange& exchange, const std::string& id,
                             route::Director::Decisions found, const Clock& clock) {
    if (!id.empty() && found.empty())
      return say(exchange, 404, "no decision is kept of request '" + id + "'");
    if (!id.empty()) std::ranges::reverse(found);
    say_json(exchange, decision_states(found, !id.empty(), clock));
  }
};

const std::array<Server::State::Page, 9> Server::State::kPages = {{
    {"/healthz", For::kProbes, &State::alive},
    {"/readyz", For::kProbes, &State::readiness},
    {"/ready", For::kProbes, &State::readiness},
    {"/metrics", For::kEverybody, &State::metrics_page},
    {"/debug/endpoints", For::kTrusted, &State::endpoints},
    {"/debug/decisions", For::kTrusted, &State::decisions},
    {"/debug/flow", For::kTrusted, &State::flow},
    {"/debug/plugins", For::kTrusted, &State::plugins},
    {"/debug/plugins/state", For::kTrusted, &State::states},
}};

Server::Server(io::Loop& loop, const Options& options, metric::Registry& metrics,
               const route::Director& director, std::function<std::string()> ready)
    : state_(new State{metrics, director, loop, options.debug_token, std::move(ready), nullptr,
                       nullptr}) {
  auto main = listener(options.host, options.port);
  main.tls = options.tls;
  state_->main = state_->make(std::move(main), false);
  if (options.ready_port != 0)
    state_->health_only_server = state_->make(listener(options.host, options.ready_port), true);
}

Server::~Server() = default;

Status Server::listen() {
  LLMD_TRY(state_->main->listen());
  if (state_->health_only_server) LLMD_TRY(state_->health_only_server->listen());
  return {};
}

uint16_t Server::port() const {
  return state_->main->port();
}

}  // namespace llmd::admin
