#include "codec/go_json.h"
#include "codec/json_scan.h"

#include <cstdint>
#include <cstdlib>
#include <string>

using namespace llmd;
using namespace llmd::codec;

namespace {

constexpr JsonField kFields[] = {{0, "a", 1}};
constexpr JsonSchema kSchema(kFields);

struct NoSink final : JsonSink {
  void open(uint8_t, JsonKind, size_t) override {}
  void value(uint8_t, const JsonValue&) override {}
};

bool valid(std::string_view text) {
  NoSink sink;
  JsonScanner scanner(kSchema, sink);
  return scanner.feed(text) && scanner.finish();
}

}  // namespace

/// The canonical form of valid JSON is valid, and its own canonical form.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  if (!valid(text)) return 0;
  Arena arena;
  const std::string once(go_json(text, arena));
  if (!valid(once) || once.size() > 6 * text.size()) std::abort();
  if (go_json(once, arena) != once) std::abort();
  return 0;
}
