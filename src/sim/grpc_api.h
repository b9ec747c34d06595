#pragma once

#include "api.h"

#include <span>

/// The protobuf of vLLM's gRPC service (vllm.grpc.engine.VllmEngine): bodies in, messages out. No
/// sockets, no engine calls.
namespace llmd::sim {

inline constexpr std::string_view kGrpcGenerate = "/vllm.grpc.engine.VllmEngine/Generate";
inline constexpr std::string_view kGrpcModelInfo = "/vllm.grpc.engine.VllmEngine/GetModelInfo";

/// Reads the one framed GenerateRequest that `body` is.
std::optional<ApiError> read_grpc_generation(std::string_view body, GenerationRequest& out);

// Each appends a framed message to `out`.
/// A GenerateResponse with one token of a stream.
void append_grpc_chunk(std::string& out, uint32_t token, const Usage& usage);
/// The GenerateResponse that ends an answer; `ids` are its tokens, none in a stream.
void append_grpc_complete(std::string& out, std::span<const uint32_t> ids, FinishReason reason,
                          const Usage& usage);
/// A GetModelInfoResponse.
void append_grpc_model_info(std::string& out, std::string_view model, uint32_t context_tokens);

}  // namespace llmd::sim
