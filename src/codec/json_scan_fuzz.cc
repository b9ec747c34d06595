#include "codec/json_scan.h"
#include "codec/json_text.h"

#include <simdjson.h>

#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>

using namespace llmd::codec;

namespace {

enum : uint8_t { kRoot, kText, kList, kItem };
constexpr JsonField kFields[] = {
    {kRoot, "a", kText}, {kRoot, "b", kList}, {kList, kJsonElement, kItem}};
constexpr JsonSchema kSchema(kFields);

struct Sink final : JsonSink {
  uint64_t digest = 0;              // of all events
  std::optional<std::string> text;  // of the last "a" when it is a string
  size_t items = 0;                 // of the last "b" when it is an array

  void mix(uint64_t value) { digest = (digest ^ value) * 0x9e3779b97f4a7c15 + (digest >> 29); }
  void open(uint8_t id, JsonKind kind, size_t at) override {
    mix(id + 64u);
    mix(static_cast<uint64_t>(kind));
    mix(at);
  }
  void value(uint8_t id, const JsonValue& v) override {
    for (uint64_t part :
         {uint64_t{id}, static_cast<uint64_t>(v.kind), v.begin, v.end, v.unescaped, v.count})
      mix(part);
    if (id == kText) {
      text.reset();
      if (v.kind != JsonKind::kString || v.text.empty()) return;
      text.emplace(v.inside().size(), '\0');
      if (unescape_json(v.inside(), text->data()) != v.unescaped) std::abort();
      text->resize(v.unescaped);
    }
    if (id == kList) items = v.kind == JsonKind::kArray ? v.count : 0;
  }
};

void require(bool condition) {
  if (!condition) std::abort();
}

/// Checks the fields against simdjson's tree. Of a repeated key simdjson finds the first, so those
/// are left out.
void compare_values(simdjson::dom::element root, const Sink& sink) {
  simdjson::dom::object object;
  if (root.get(object) != simdjson::SUCCESS) return;
  size_t texts = 0, lists = 0;
  for (auto [key, value] : object) {
    texts += key == "a";
    lists += key == "b";
  }
  std::string_view text;
  if (texts == 1 && object["a"].get(text) == simdjson::SUCCESS) require(sink.text == text);
  simdjson::dom::array list;
  if (lists == 1 && object["b"].get(list) == simdjson::SUCCESS) require(sink.items == list.size());
}

}  // namespace

/// The first byte sets the piece size; the rest is the document. All ways of feeding must agree
/// with each other and, but for the differences named in json_scan.h, with simdjson.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const size_t step = data[0] + 1;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);

  Sink whole, grown, chunked;
  JsonScanner a(kSchema, whole), b(kSchema, grown), c(kSchema, chunked);
  const bool accepted = a.feed(text) && a.finish();
  for (size_t at = 0; at < text.size(); at += step) {
    const std::string prefix = text.substr(0, at + step);
    b.feed(prefix);
    c.feed_chunk(std::string_view(text).substr(at, step));
  }
  require(b.finish() == accepted && c.finish() == accepted);
  require(whole.digest == grown.digest && whole.digest == chunked.digest);
  require(a.error().text() == b.error().text() && a.error().offset == c.error().offset);

  static simdjson::dom::parser parser;
  simdjson::dom::element root;
  const auto error = parser.parse(text).get(root);
  if (a.error().kind == JsonError::Kind::kDepth) return 0;
  if (error == simdjson::SUCCESS) {
    require(accepted);
    compare_values(root, whole);
  } else if (accepted) {
    require(error == simdjson::UTF8_ERROR || error == simdjson::NUMBER_ERROR ||
            (error == simdjson::STRING_ERROR && text.find("\\u") != text.npos));
  }
  return 0;
}
