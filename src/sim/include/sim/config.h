#pragma once

#include "base/clock.h"
#include "base/result.h"
#include "sim/latency_model.h"

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace llmd::sim {

struct LoraModule {
  std::string name;
  std::string path;
  std::string base_model_name;
};

enum class Mode : uint8_t { kRandom, kEcho };

/// How KV events are written: as vLLM up to 0.23, as vLLM from 0.24 on, as SGLang.
enum class EventFormat : uint8_t { kArray, kMap, kSglang };

/// What one server tells of its prefix cache, and how unreliably. Rates are percentages of the
/// messages.
struct KvEventsConfig {
  std::string endpoint;  // "": nothing is published
  bool bind = false;
  std::string replay_endpoint;  // "": nothing can be asked for again
  uint32_t replay_queue_size = 1024;
  uint32_t batch_size = 16;  // events
  EventFormat format = EventFormat::kArray;
  bool whole_hashes = false;
  uint32_t loss_rate = 0;
  uint32_t duplication_rate = 0;
  uint32_t reorder_rate = 0;
  Nanos delay{0};
};

/// One simulated server. Every member is a key of the table of options below and is described
/// there.
struct ServerConfig {
  uint16_t port = 8000;
  std::string host = "0.0.0.0";
  uint32_t max_request_body_size_mb = 4;
  std::string model;
  std::vector<std::string> served_model_name;
  std::vector<LoraModule> lora_modules;
  uint32_t max_loras = 1;
  uint32_t max_cpu_loras = 0;
  uint32_t max_model_len = 1024;
  uint32_t max_num_seqs = 5;
  uint32_t max_waiting_queue_length = 1000;
  Mode mode = Mode::kRandom;
  Nanos startup_duration{0};
  int64_t seed = 0;  // 0: taken from the clock at start
  bool enable_request_id_headers = false;
  LatencyConfig latency;
  bool enable_kvcache = false;
  uint32_t kv_cache_size = 1024;  // blocks
  uint32_t block_size = 16;       // tokens
  std::string hash_seed;
  KvEventsConfig kv_events;
  double global_cache_hit_threshold = 0;
  uint32_t failure_injection_rate = 0;  // percent
  std::vector<std::string> failure_types;
  uint32_t data_parallel_size = 1;
  int32_t data_parallel_rank = -1;
  std::string ssl_certfile;
  std::string ssl_keyfile;
  bool self_signed_certs = false;

  bool secure() const { return self_signed_certs || !ssl_certfile.empty(); }

  /// What responses and metrics call the model: the first alias, or the model itself.
  const std::string& display_model() const {
    return served_model_name.empty() ? model : served_model_name.front();
  }
};

/// A key that may stand on the command line (--NAME), in the YAML file (NAME) and, where `admin`,
/// in a POST to /admin/config. One table serves all three, the help text and GET /admin/config.
struct Option {
  enum class Shape : uint8_t { kSwitch, kOne, kMany };

  std::string_view name;
  Shape shape = Shape::kOne;
  bool admin = false;
  bool is_duration = false;  // an integer in YAML and JSON counts nanoseconds
  std::string_view help;
  /// Errors say what is wrong with the value; the caller adds the name.
  std::function<Status(ServerConfig&, std::span<const std::string>)> set;
  /// The value as JSON text. Empty for options without a value of their own.
  std::function<std::string(const ServerConfig&)> show;
};

std::span<const Option> options();
/// The option `name`, or null.
const Option* find_option(std::string_view name);

/// Faults that concern several keys or a missing one; names the key.
Status validate(const ServerConfig& config);

/// Changes the defaults that `config` starts from. Errors name the presets there are.
Status apply_preset(ServerConfig& config, std::string_view preset);

inline constexpr std::string_view kFailureTypes[] = {"rate_limit",      "invalid_api_key",
                                                     "context_length",  "server_error",
                                                     "invalid_request", "model_not_found"};

}  // namespace llmd::sim
