#pragma once

#include "request/parser.h"

namespace llmd::request {

/// Calls of vllm.grpc.engine.VllmEngine, by method.
BodyScan* scan_vllm_grpc(std::string_view path, Arena& arena);
/// Null: the method's answer has no usage.
UsageScan* scan_vllm_grpc_usage(std::string_view path, Arena& arena);

/// Calls of Vertex AI's PredictionService, which carry an HTTP body, by method.
BodyScan* scan_vertex(std::string_view path, Arena& arena);
UsageScan* scan_vertex_usage(Arena& arena);

}  // namespace llmd::request
