#pragma once

#include "kv_indexer/indexer.h"
#include "metric/registry.h"
#include "request/parser.h"
#include "service/servers.h"

#include <memory>

namespace llmd::kv_indexer {

/// Scores pods for others on one loop: POST /score_completions, /score_chat_completions and
/// /v1/score over HTTP, indexer.v1.IndexerService over gRPC. Threading: the loop's thread;
/// construct and destroy there too, or while the loop does not run.
class Server {
 public:
  /// `parser` is OpenAI's. Requires: all outlive this.
  Server(io::Loop& loop, service::ServersOptions options, const Indexer& indexer,
         const request::Parser& parser, metric::Registry& metrics);
  ~Server();

  service::Servers& servers();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace llmd::kv_indexer
