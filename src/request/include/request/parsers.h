#pragma once

#include "plugin/registry.h"

/// The parser plugins of this module, for the explicit list of plugin types.
namespace llmd::request {

/// `openai-parser`: completions, chat, embeddings, responses, conversations, images.
const plugin::Descriptor& openai_parser();
/// `passthrough-parser`: any path, nothing is read.
const plugin::Descriptor& passthrough_parser();

}  // namespace llmd::request
