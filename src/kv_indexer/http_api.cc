#include "api.h"
#include "requests.h"
#include "scoring.h"

#include "service/http_handler.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

namespace llmd::kv_indexer {
namespace {

struct Path {
  std::string_view path;
  BodyKind kind;
  std::string (*answer)(const Scores& scores);
};
constexpr std::array<Path, 3> kPaths = {{
    {"/score_completions", BodyKind::kCompletion, pod_scores_json},
    {"/score_chat_completions", BodyKind::kChat, pod_scores_json},
    {"/v1/score", BodyKind::kEither, scores_json},
}};

const Path* find(std::string_view path) {
  const auto at = std::ranges::find(kPaths, path, &Path::path);
  return at == kPaths.end() ? nullptr : &*at;
}

class Handler final : public service::HttpHandler {
 public:
  explicit Handler(const Api& api) : HttpHandler(api.metrics), api_(api) {}

  void on_abort(http::Exchange&, http::AbortCause) override { scoring_.reset(); }

 private:
  std::string_view unready() const override {
    return api_.indexer.ready() ? "" : "there are no endpoints\n";
  }
  bool has(std::string_view path) const override { return find(path) != nullptr; }

  void on_post(http::Exchange& exchange, std::string_view path, std::string_view body) override {
    const Path& asked = *find(path);
    const auto done = [this, &exchange, &asked](const Result<Scores>& scores) {
      api_.http.of(scores.has_value()).add();
      if (scores) return respond_json(exchange, asked.answer(*scores));
      refuse(exchange, http_status(scores.error().code), scores.error().message);
    };
    auto request = read_body(body, asked.kind, api_.parser, api_.indexer.tokens());
    if (!request) return done(std::unexpected(request.error()));
    scoring_.emplace(exchange.loop(), api_.indexer);
    scoring_->of(std::move(*request), done);
  }

  const Api& api_;
  std::optional<Scoring> scoring_;
};

}  // namespace

std::unique_ptr<http::RequestHandler> http_handler(const Api& api) {
  return std::make_unique<Handler>(api);
}

}  // namespace llmd::kv_indexer
