#pragma once

#include "models.h"

#include "base/clock.h"
#include "http/server.h"
#include "metric/registry.h"

#include <memory>

namespace llmd::token_service {

/// The handler of one connection: POST /v1/chat/completions/render and /v1/completions/render as
/// vLLM answers them, GET /healthz and /metrics.
std::unique_ptr<http::RequestHandler> http_handler(const Models& models, Nanos timeout,
                                                   metric::Registry& metrics);

}  // namespace llmd::token_service
