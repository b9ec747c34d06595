#include "kv_precise/precise_params.h"

#include "base/text.h"
#include "plugin/ignored_param.h"
#include "plugin/nanoseconds_param.h"

#include <array>
#include <string_view>

namespace llmd::kv_precise {
namespace {

using P = PreciseParams;
using plugin::field;
using plugin::Params;

constexpr int64_t kDefaultBlockTokens = 16;
constexpr int64_t kBlockTokensMax = 65536;
constexpr int64_t kThreadsMax = 64;
constexpr Nanos kDefaultTtl = std::chrono::seconds(2);

/// A parameter of which nothing but its absence is right.
template <class T>
plugin::Param<T> refused(std::string_view name, std::string_view why) {
  plugin::Param<T> param;
  param.info = {.name = std::string(name),
                .type = "object",
                .default_value = "null",
                .unit = {},
                .limits = "not accepted",
                .doc = std::string(why),
                .deprecated = true,
                .fields = {}};
  param.set = [name = std::string(name), why = std::string(why)](T&, const codec::Node&) -> Status {
    return fail(Code::kBadRequest, "parameter '" + name + "' is not accepted: " + why);
  };
  param.print = [](const T&) -> std::string { return "null"; };
  return param;
}

Params<P::Tokens> tokens_table() {
  return {
      field("blockSizeTokens", &P::Tokens::block_tokens, "tokens",
            "Size of the blocks by which prompts are compared; 0: blockSize, else 16. The engine's "
            "own block size or a divisor of it is best.")
          .min(0)
          .max(kBlockTokensMax),
      field("blockSize", &P::Tokens::block_size, "tokens",
            "Becomes blockSizeTokens while that is 0.")
          .min(0)
          .max(kBlockTokensMax)
          .deprecated(),
      field("hashSeed", &P::Tokens::hash_seed, "", "Of the keys of blocks."),
      field("hashAlgorithm", &P::Tokens::algorithm, "",
            "Of the keys of blocks in a shared index; \"\": cbor-fnv. Checked, and without effect "
            "elsewhere: keys that never leave the process are made in the fastest way.")
          .one_of({"", "cbor-fnv", "xxh64"}),
  };
}

/// An address, of which the password is not shown.
plugin::Param<P::Redis> address_field() {
  auto param = field("address", &P::Redis::address, "",
                     "redis://, rediss:// (TLS), valkey://, valkeys:// or unix:// URL of the "
                     "server, with user, password and database where it wants them.");
  param.print = [](const P::Redis& p) {
    const auto address = redis::parse_address(p.address);
    return plugin::values::to_json(address ? address->name() : std::string());
  };
  return param;
}

Params<P::Index> index_table() {
  const Params<P::InMemory> in_memory = {
      field("size", &P::InMemory::size, "blocks", "Blocks that are remembered.").positive(),
      plugin::ignored<P::InMemory, int64_t>("podCacheSize"),
  };
  const Params<P::CostAware> cost_aware = {
      field("size", &P::CostAware::size, "bytes", "Memory of the index, such as 2GiB or 500MB."),
  };
  const Params<P::Redis> redis = {
      address_field(),
      field("backendType", &P::Redis::backend, "", "Checked, and without effect.")
          .one_of({"", "redis", "valkey"})
          .deprecated(),
      plugin::ignored<P::Redis, bool>("enableRDMA"),
  };
  return {
      plugin::object_field("inMemoryConfig", &P::Index::in_memory, in_memory, "The index."),
      plugin::object_field("costAwareMemoryConfig", &P::Index::cost_aware, cost_aware,
                           "Bounds the index by memory as well."),
      plugin::object_field("redisConfig", &P::Index::redis, redis,
                           "Shares the index with other routers through Redis or Valkey; beside "
                           "costAwareMemoryConfig it has no effect. All must have the same "
                           "tokenProcessorConfig."),
      field("enableMetrics", &P::Index::metrics, "", "Count look-ups, hits and changes."),
      plugin::nanoseconds(
          "metricsLoggingInterval", &P::Index::logging_interval,
          "How often these counts are logged; 0: never. Needs enableMetrics. Also accepted "
          "as a whole number of nanoseconds."),
  };
}

Params<P::Indexer> indexer_table(bool with_tokenizer) {
  const Params<TierWeight> tier = {
      field("name", &TierWeight::name, "", "Medium, in small letters."),
      field("weight", &TierWeight::weight, "", "What a block in it counts.").min(0),
  };
  const Params<P::Scoring> scoring = {
      field("scoringStrategy", &P::Scoring::strategy, "", "How blocks become a score.")
          .one_of({"LongestPrefix"}),
      plugin::ignored<P::Scoring, std::vector<std::string>>("backendConfigs"),
  };
  using Map = std::map<std::string, std::string>;
  auto tokenizer = with_tokenizer ? plugin::ignored<P::Indexer, Map>("tokenizersPoolConfig")
                                  : refused<P::Indexer>("tokenizersPoolConfig",
                                                        "prompts are tokenized by token-producer");
  if (with_tokenizer)
    tokenizer.set = [](P::Indexer&, const codec::Node& node) {
      return plugin::values::expect(node, codec::Node::Type::kMap);
    };
  return {
      plugin::object_field("kvBlockIndexConfig", &P::Indexer::index, index_table(), "The index."),
      plugin::list_field("kvCacheBackendConfigs", &P::Indexer::tiers, tier,
                         "What blocks count by the medium that they are in; 1 in others. A given "
                         "list replaces the default one."),
      plugin::object_field("kvBlockScorerConfig", &P::Indexer::scoring, scoring, "Scoring."),
      std::move(tokenizer),
  };
}

Params<P::Events> events_table() {
  const Params<P::Discovery> discovery = {
      plugin::ignored<P::Discovery, std::string>("podLabelSelector"),
      plugin::ignored<P::Discovery, std::string>("podNamespace"),
      field("socketPort", &P::Discovery::socket_port, "",
            "Where engines publish; the rank of an endpoint (NAME-rank-N) is added.")
          .min(1)
          .max(65535),
      field("replaySocketPort", &P::Discovery::replay_port, "",
            "Where engines send events again that were missed; the rank is added. 0 and less: "
            "nowhere.")
          .max(65535),
  };
  return {
      field("zmqEndpoint", &P::Events::endpoint, "",
            "Where engines connect to and publish, such as tcp://*:5557; \"\": nowhere."),
      field("topicFilter", &P::Events::topic_filter, "", "Beginning of the topics that count."),
      field("concurrency", &P::Events::threads, "", "Threads that apply events.")
          .min(1)
          .max(kThreadsMax),
      field("engineType", &P::Events::engine, "", "vllm or sglang; \"\": vllm."),
      field("discoverPods", &P::Events::discover, "", "Follow the events of every endpoint."),
      plugin::object_field("podDiscoveryConfig", &P::Events::discovery, discovery,
                           "Where the events of endpoints are found."),
  };
}

Status fold(P& p) {
  auto& tokens = p.tokens;
  if (tokens.block_tokens == 0) tokens.block_tokens = tokens.block_size;
  if (tokens.block_tokens == 0) tokens.block_tokens = kDefaultBlockTokens;
  tokens.block_size = 0;
  return {};
}

Params<P> table(bool with_tokenizer) {
  return {
      {
          plugin::object_field("tokenProcessorConfig", &P::tokens, tokens_table(), "Blocks."),
          plugin::object_field("indexerConfig", &P::indexer, indexer_table(with_tokenizer),
                               "Index."),
          plugin::object_field("kvEventsConfig", &P::events, events_table(), "Events of engines."),
          field("speculativeIndexing", &P::speculative, "",
                "Believe for a while that an endpoint holds what it was just sent."),
          field("speculativeTTL", &P::speculative_ttl, "",
                "For how long, as a Go duration; \"\" and 0: 2s."),
      },
      fold};
}

Result<size_t> bytes_of(std::string_view text) {
  std::string_view quantity = text;
  if (quantity.ends_with('B')) quantity.remove_suffix(1);
  const auto bytes = parse_quantity(quantity);
  if (!bytes || *bytes == 0)
    return fail(Code::kBadRequest,
                "parameter 'indexerConfig.kvBlockIndexConfig.costAwareMemoryConfig.size': '" +
                    std::string(text) + "' is no size above 0, such as 2GiB");
  return static_cast<size_t>(*bytes);
}

}  // namespace

const Params<P>& precise_params(bool with_tokenizer) {
  static const std::array<Params<P>, 2> params = {table(false), table(true)};
  return params[with_tokenizer];
}

std::string identity(const P& params, bool with_tokenizer) {
  const auto& shared = params.indexer.index.redis;
  return precise_params(with_tokenizer).print(params) + (shared ? shared->address : "");
}

Status complete(P& p) {
  LLMD_TRY(fold(p));  // as parameters within others are not
  if (p.indexer.tiers.size() > TierNames::kNamedMax)
    return fail(Code::kBadRequest, "parameter 'indexerConfig.kvCacheBackendConfigs': has " +
                                       std::to_string(p.indexer.tiers.size()) +
                                       " entries, at most " + std::to_string(TierNames::kNamedMax) +
                                       " are possible");
  if (const auto& cost = p.indexer.index.cost_aware) {
    LLMD_TRY_ASSIGN(p.bytes_max, bytes_of(cost->size));
  }
  if (const auto& shared = p.indexer.index.redis; shared && !p.indexer.index.cost_aware) {
    auto address = redis::parse_address(shared->address);
    if (!address)
      return fail(std::move(address).error().in(
          "parameter 'indexerConfig.kvBlockIndexConfig.redisConfig.address'"));
    p.shared = std::move(*address);
    if (p.tokens.algorithm != "xxh64") p.algorithm = kv::KeyAlgorithm::kCborFnv;
  }
  auto adapter = kv_events::find_adapter(p.events.engine);
  if (!adapter) return fail(std::move(adapter).error().in("parameter 'kvEventsConfig.engineType'"));
  p.adapter = *adapter;
  auto ttl = parse_duration(p.speculative_ttl.empty() ? "0" : p.speculative_ttl);
  if (!ttl) return fail(std::move(ttl).error().in("parameter 'speculativeTTL'"));
  p.ttl = *ttl > Nanos(0) ? *ttl : kDefaultTtl;
  return {};
}

}  // namespace llmd::kv_precise
