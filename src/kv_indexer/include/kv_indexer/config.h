#pragma once

#include "base/result.h"
#include "kv_precise/precise_params.h"
#include "render/token_source.h"

#include <optional>
#include <string>
#include <string_view>

namespace llmd::kv_indexer {

/// What the configuration file says: parameters of plugins, under the plugins' names.
struct IndexerConfig {
  kv_precise::PreciseParams index;
  std::optional<render::TokenSourceParams> tokens;  // nothing: prompts come as token ids
};

/// Reads a document in YAML or JSON; "" has all defaults. `file`: for errors, which name file,
/// line, field, value and the nearest valid name.
Result<IndexerConfig> read_config(std::string_view text, std::string_view file);

}  // namespace llmd::kv_indexer
