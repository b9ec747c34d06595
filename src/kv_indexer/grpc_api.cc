#include "api.h"
#include "requests.h"
#include "scoring.h"

#include "grpc/unary_handler.h"
#include "http/grpc_status.h"

#include <utility>

namespace llmd::kv_indexer {
namespace {

class GetPodScores final : public grpc::UnaryHandler {
 public:
  GetPodScores(grpc::Call& call, const Api& api)
      : UnaryHandler(call), api_(api), scoring_(call.loop(), api.indexer) {}
  void on_abort(grpc::StatusCode) override { scoring_.cancel(); }

 private:
  void on_request(std::string_view message) override {
    auto request = read_message(message, api_.indexer.tokens());
    if (!request) return say(std::unexpected(request.error()));
    scoring_.of(std::move(*request), [this](const Result<Scores>& scores) { say(scores); });
  }

  void say(const Result<Scores>& scores) {
    api_.grpc.of(scores.has_value()).add();
    if (scores) return answer(write_message(*scores));
    const int status = http::grpc_status(http_status(scores.error().code));
    call_.finish(static_cast<grpc::StatusCode>(status), scores.error().message);
  }

  const Api& api_;
  Scoring scoring_;
};

}  // namespace

std::vector<grpc::Method> grpc_methods(const Api& api) {
  return {{"/indexer.v1.IndexerService/GetPodScores",
           [&api](grpc::Call& call) { return std::make_unique<GetPodScores>(call, api); }}};
}

}  // namespace llmd::kv_indexer
