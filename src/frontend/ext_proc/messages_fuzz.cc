#include "header_rules.h"
#include "messages.h"

#include <cstdint>

/// Reads what a proxy may send, and everything in it.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace llmd;
  using namespace llmd::frontend::ext_proc;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto message = read_request(bytes);
  if (!message) return 0;
  std::vector<HeaderField> headers, set;
  if (read_headers(message->header_map, headers)) {
    echo(HeaderView(headers), set);
    std::vector<std::string_view> remove;
    for (const auto& field : headers)
      if (is_removed(field.name)) remove.push_back(field.name);
    std::string out;
    write_request_head(out, {set, remove}, {"127.0.0.1:1", {}});
  }
  const auto subset = read_subset(message->metadata);
  auto items = subset.value_or(std::vector<std::string_view>{});
  items.push_back(read_served(message->metadata));
  // Every view lies within the message.
  for (const auto item : items)
    if (!item.empty() && (item.data() < bytes.data() || item.end() > bytes.end())) __builtin_trap();
  return 0;
}
