#include "page_reader.h"

#include "base/check.h"

#include <cmath>
#include <cstdint>

/// Whatever a model server of any engine shows as its metrics: numbers that can be reckoned with.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace llmd::fleet;
  static auto readers = [] {
    std::vector<PageReader> all;
    for (const auto& engine : builtin_engines()) all.emplace_back(engine);
    return all;
  }();
  for (auto& reader : readers) {
    EndpointMetrics m;
    EngineDetails details;
    reader.begin();
    reader.feed({reinterpret_cast<const char*>(data), size});
    if (!reader.finish(m, details)) continue;
    for (const int64_t count : {m.waiting_queue_size, m.running_requests_size, m.cache_block_size,
                                m.cache_num_blocks, m.kv_cache_max_tokens, m.max_active_models})
      CHECK(count >= 0);
    CHECK(std::isfinite(m.kv_cache_usage));
    CHECK(details.running_adapters.size() + details.waiting_adapters.size() <= size);
  }
  return 0;
}
