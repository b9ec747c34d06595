#pragma once

#include "kv/block_keys.h"
#include "kv_events/engine_adapter.h"
#include "kv_precise/tier_names.h"
#include "plugin/params.h"
#include "redis/address.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace llmd::kv_precise {

/// Of a shared index. Outside of PreciseParams, within which clang knows no default of its own.
struct RedisParams {
  std::string address = "redis://127.0.0.1:6379";
  std::string backend;
};

/// Parameters of the precise prefix cache (spec 05 §8), under the names of its configuration.
struct PreciseParams {
  struct Tokens {
    int64_t block_tokens = 0;
    int64_t block_size = 0;
    std::string hash_seed;
    std::string algorithm;
  };
  struct InMemory {
    int64_t size = 100'000'000;
  };
  struct CostAware {
    std::string size;
  };
  using Redis = RedisParams;
  struct Index {
    InMemory in_memory;
    std::optional<CostAware> cost_aware;
    std::optional<Redis> redis;
    bool metrics = false;
    Nanos logging_interval{0};
  };
  struct Scoring {
    std::string strategy = "LongestPrefix";
  };
  struct Indexer {
    Index index;
    std::vector<TierWeight> tiers = {{"gpu", 1.0}, {"cpu", 0.8}};
    Scoring scoring;
  };
  struct Discovery {
    int64_t socket_port = 5557;
    int64_t replay_port = 0;
  };
  struct Events {
    std::string endpoint;
    std::string topic_filter = "kv@";
    int64_t threads = 4;
    std::string engine;
    bool discover = true;
    Discovery discovery;
  };

  Tokens tokens;
  Indexer indexer;
  Events events;
  bool speculative = false;
  std::string speculative_ttl = "2s";

  // What is made of them by complete().
  size_t bytes_max = 0;                  // 0: no bound
  std::optional<redis::Address> shared;  // the server of a shared index
  kv::KeyAlgorithm algorithm = kv::KeyAlgorithm::kXxh64;
  const kv_events::EngineAdapter* adapter = nullptr;
  Nanos ttl{};
};

/// `with_tokenizer`: whether the parameters of a tokenizer, which is not part of this any more, are
/// accepted without effect.
const plugin::Params<PreciseParams>& precise_params(bool with_tokenizer);

/// All that tells parameters from others, secrets included: not to be shown.
std::string identity(const PreciseParams& params, bool with_tokenizer);

/// Errors name field and value.
Status complete(PreciseParams& params);

}  // namespace llmd::kv_precise
