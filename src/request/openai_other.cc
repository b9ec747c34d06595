#include "openai_scan.h"

#include <iterator>

namespace llmd::request {
namespace {

using codec::JsonKind;
using codec::JsonValue;

enum : uint8_t { kInstructions = kFirstOwn, kTools, kInput };

constexpr codec::JsonField kResponseFields[] = {
    LLMD_COMMON_FIELDS,
    {kRoot, "max_output_tokens", kCapFirst},
    {kRoot, "instructions", kInstructions},
    {kRoot, "tools", kTools},
    {kRoot, "input", kInput},
};
constexpr codec::JsonSchema kResponseSchema(kResponseFields);

/// The prompt is the JSON list of those of the three fields that are there.
class ResponseScan final : public JsonBodyScan {
 public:
  explicit ResponseScan(Arena& arena)
      : JsonBodyScan(Api::kResponses, kResponseSchema,
                     {kMalformedMap, "invalid responses request: must have input field"}, arena) {}

 private:
  void own_open(uint8_t, JsonKind) override {}
  void own_value(uint8_t id, const JsonValue& v) override {
    values_[id - kInstructions] = v.kind == JsonKind::kNull ? Range{} : Range{v.begin, v.end};
  }
  bool complete() const override { return values_[2].end > 0; }

  std::span<const Prompt> prompts(std::string_view body) override {
    constexpr std::string_view kKeys[] = {R"({"instructions":)", R"({"tools":)", R"({"input":)"};
    auto pieces = arena_.array<Piece>(4 * std::size(kKeys));
    size_t count = 0;
    const auto put = [&](std::string_view text) {
      pieces[count++] = {.text = text, .bytes = text.size()};
    };
    for (size_t i = 0; i < 3; ++i) {
      if (values_[i].end == 0) continue;
      put(count == 0 ? "[" : ",");
      put(kKeys[i]);
      put(rewritten(body, values_[i]));
      put(i == 2 ? "}]" : "}");
    }
    return one_prompt(pieces.first(count));
  }

  Range values_[3];  // empty: absent or null
};

enum : uint8_t { kItems = kFirstOwn, kItem, kItemType, kItemRole, kItemContent };

constexpr codec::JsonField kConversationFields[] = {
    LLMD_COMMON_FIELDS,         {kRoot, "items", kItems},   {kItems, codec::kJsonElement, kItem},
    {kItem, "type", kItemType}, {kItem, "role", kItemRole}, {kItem, "content", kItemContent},
};
constexpr codec::JsonSchema kConversationSchema(kConversationFields);

/// The prompt is the JSON list of the items, each with its three known fields in this order.
class ConversationScan final : public JsonBodyScan {
 public:
  explicit ConversationScan(Arena& arena)
      : JsonBodyScan(Api::kConversations, kConversationSchema,
                     {kMalformedMap, "invalid conversations request: must have items field"},
                     arena),
        items_(arena) {}

 private:
  struct Item {
    Range values[3];  // type, role, content; empty: absent or null
  };

  void own_open(uint8_t id, JsonKind) override {
    if (id == kItems) items_.clear();
  }
  void own_value(uint8_t id, const JsonValue& v) override {
    if (id == kItems) {
      if (!expect(v, JsonKind::kArray)) items_.clear();
    } else if (id == kItem) {
      expect(v, JsonKind::kObject);
      items_.push_back(open_item_);
      open_item_ = {};
    } else if (id == kItemContent ? v.kind != JsonKind::kNull : expect(v, JsonKind::kString)) {
      open_item_.values[id - kItemType] = {v.begin, v.end};
    }
  }
  bool complete() const override { return !items_.empty(); }

  std::span<const Prompt> prompts(std::string_view body) override {
    constexpr std::string_view kKeys[] = {R"("type":)", R"("role":)", R"("content":)"};
    ArenaList<char> out(arena_);
    const auto put = [&out](std::string_view text) { out.append({text.data(), text.size()}); };
    for (size_t i = 0; i < items_.size(); ++i) {
      put(i == 0 ? "[{" : ",{");
      bool first = true;
      for (size_t k = 0; k < 3; ++k) {
        const Range value = items_[i].values[k];
        if (value.end == 0) continue;
        if (!first) put(",");
        first = false;
        put(kKeys[k]);
        put(rewritten(body, value));
      }
      put("}");
    }
    put("]");
    auto pieces = arena_.array<Piece>(1);
    pieces[0] = {.text = {out.view().data(), out.size()}, .bytes = out.size()};
    return one_prompt(pieces);
  }

  ArenaList<Item> items_;
  Item open_item_;
};

enum : uint8_t { kPrompt = kFirstOwn, kText, kNumber };

constexpr codec::JsonField kImageFields[] = {
    {kRoot, "model", kModel}, {kRoot, "stream", kStream}, {kRoot, "prompt", kPrompt},
    {kRoot, "size", kText},   {kRoot, "n", kNumber},      {kRoot, "num_inference_steps", kNumber},
};
constexpr codec::JsonSchema kImageSchema(kImageFields);

/// Checked and routed by model; an image prompt has no tokens.
class ImageScan final : public JsonBodyScan {
 public:
  explicit ImageScan(Arena& arena)
      : JsonBodyScan(Api::kImages, kImageSchema,
                     {kMalformedMap, "invalid images generations request: must have prompt field"},
                     arena) {}

 private:
  void own_open(uint8_t, JsonKind) override {}
  void own_value(uint8_t id, const JsonValue& v) override {
    const bool good = expect(v, id == kNumber ? JsonKind::kNumber : JsonKind::kString);
    if (id == kPrompt) has_prompt_ = good && v.unescaped > 0;
  }
  bool complete() const override { return has_prompt_; }
  std::span<const Prompt> prompts(std::string_view) override { return {}; }

  bool has_prompt_ = false;
};

}  // namespace

BodyScan* scan_responses(Arena& arena) {
  return arena.make<ResponseScan>(arena);
}
BodyScan* scan_conversations(Arena& arena) {
  return arena.make<ConversationScan>(arena);
}
BodyScan* scan_images(Arena& arena) {
  return arena.make<ImageScan>(arena);
}

}  // namespace llmd::request
