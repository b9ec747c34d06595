#pragma once

#include "grpc/server.h"
#include "http/server.h"
#include "kv_indexer/indexer.h"
#include "metric/registry.h"
#include "request/parser.h"

#include <memory>
#include <string_view>
#include <vector>

namespace llmd::kv_indexer {

/// Counts what came of requests. Handles write nothing by default.
struct RequestCounts {
  static RequestCounts of(metric::Registry& registry, std::string_view api);
  const metric::Counter& of(bool success) const { return success ? scored : failed; }
  metric::Counter scored, failed;
};

/// What all requests use.
struct Api {
  const Indexer& indexer;
  const request::Parser& parser;
  metric::Registry& metrics;
  const RequestCounts http, grpc;
};

/// The handler of one connection. Requires: `api` outlives it; so for the methods.
std::unique_ptr<http::RequestHandler> http_handler(const Api& api);
std::vector<grpc::Method> grpc_methods(const Api& api);

}  // namespace llmd::kv_indexer
