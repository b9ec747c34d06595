#include "json_tree.h"

#include "base/check.h"
#include "render/anthropic_chat.h"

#include <cstddef>
#include <cstdint>
#include <string_view>

/// Whatever a client sends as messages: a chat that is JSON, or an error. A value says the same in
/// both of its forms.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace llmd::render;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto chat = chat_of_messages(text, "m"); chat) {
    CHECK(parse_json_tree(*chat));
  } else {
    CHECK(!chat.error().message.empty());
  }
  const auto tree = parse_json_tree(text);
  if (!tree) return 0;
  const auto again = parse_json_tree(tree->python());
  CHECK(again && again->compact() == tree->compact());
  return 0;
}
