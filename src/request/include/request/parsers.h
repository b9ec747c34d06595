#pragma once

#include "plugin/registry.h"

/// The parser plugins of this module, for the explicit list of plugin types.
namespace llmd::request {

/// `openai-parser`: completions, chat, embeddings, responses, conversations, images, audio.
const plugin::Descriptor& openai_parser();
/// `anthropic-parser`: messages; count_tokens passes unread.
const plugin::Descriptor& anthropic_parser();
/// `vllmhttp-parser`: vLLM's generate API, which takes token ids.
const plugin::Descriptor& vllmhttp_parser();
/// `sglanghttp-parser`: SGLang's generate API, token ids only.
const plugin::Descriptor& sglanghttp_parser();
/// `vllmgrpc-parser`: vLLM's gRPC service.
const plugin::Descriptor& vllmgrpc_parser();
/// `vertexai-parser`: Vertex AI's gRPC PredictionService.
const plugin::Descriptor& vertexai_parser();
/// `passthrough-parser`: any path, nothing is read.
const plugin::Descriptor& passthrough_parser();

}  // namespace llmd::request
