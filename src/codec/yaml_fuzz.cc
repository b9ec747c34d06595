#include "codec/node.h"

#include <cstdint>
#include <cstdlib>

/// Any bytes: a tree with unique keys, or an error of one line that names the file.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto node = llmd::codec::parse_yaml({reinterpret_cast<const char*>(data), size}, "f", 1 << 16);
  if (!node) {
    const auto& message = node.error().message;
    if (!message.starts_with("f:") || message.find('\n') != message.npos) std::abort();
  }
  return 0;
}
