#include "kv_indexer/config.h"

#include "codec/node.h"

#include <string>
#include <utility>

namespace llmd::kv_indexer {

Result<IndexerConfig> read_config(std::string_view text, std::string_view file) {
  static const plugin::Params<IndexerConfig> table = {
      plugin::object_field("precise-prefix-cache-producer", &IndexerConfig::index,
                           kv_precise::precise_params(false), "The index."),
      plugin::object_field("token-producer", &IndexerConfig::tokens, render::token_source_params(),
                           "Whom the tokens of prompts are asked of."),
  };
  LLMD_TRY_ASSIGN(const auto document, codec::parse_yaml(text, file));
  if (document.find("kind") || document.find("plugins"))
    return fail(Code::kBadRequest,
                std::string(file) +
                    ": this is a configuration of llmd router or llmd epp; here the "
                    "parameters of 'precise-prefix-cache-producer' and "
                    "'token-producer' are the members, see docs/kv-indexer.md");
  LLMD_TRY_ASSIGN(auto config, table.parse(&document));
  if (auto done = complete(config.index); !done) return fail(std::move(done).error().in(file));
  if (const auto& t = config.tokens; t && t->model.empty() && !t->local && !t->vllm && !t->uds)
    return fail(Code::kBadRequest,
                std::string(file) + ": parameter 'token-producer': give 'local' or 'modelName'");
  return config;
}

}  // namespace llmd::kv_indexer
