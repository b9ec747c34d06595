#include "kv_events/batch_decoder.h"

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

using namespace llmd::kv_events;

/// Every view that a batch of any engine hands out can be read, and there are not more values in it
/// than bytes in the message.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view payload(reinterpret_cast<const char*>(data), size);
  uint64_t sum = static_cast<uint64_t>(published_at(payload) != 0);
  static std::vector<std::unique_ptr<BatchDecoder>> decoders;
  if (decoders.empty())
    for (const EngineAdapter* adapter : adapters())
      decoders.push_back(std::make_unique<BatchDecoder>(*adapter));
  for (const auto& decoder : decoders) {
    const auto batch = decoder->decode(payload);
    if (!batch) continue;
    size_t values = 0;
    for (const Event& event : batch->events) {
      values += event.blocks.size() + event.tokens.size();
      for (const uint64_t block : event.blocks) sum += block;
      for (const uint32_t token : event.tokens) sum += token;
      for (const char c : event.medium) sum += static_cast<uint8_t>(c);
      for (const char c : event.lora_name) sum += static_cast<uint8_t>(c);
      for (const Extras& extras : event.extras)
        for (const std::string_view text : extras)
          for (const char c : text) sum += static_cast<uint8_t>(c);
      sum += cache_kind_name(event.cache_kind).size();
    }
    if (values > size) std::abort();
  }
  volatile uint64_t sink = sum;  // so that all of it is read
  return sink == sum ? 0 : -1;
}
