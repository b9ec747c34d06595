#include "anthropic_scan.h"

#include "json_body_scan.h"
#include "media.h"

#include "codec/go_json.h"

namespace llmd::request {
namespace {

using codec::JsonKind;
using codec::JsonValue;

/// Members of a tool stand in the order in which they are written.
enum : uint8_t {
  kMessages = kFirstOwn,
  kMessage,
  kRole,
  kContent,
  kBlock,
  kType,
  kText,
  kThinking,
  kToolUseId,
  kToolUseName,
  kToolInput,
  kSource,
  kMediaType,
  kData,
  kUrl,
  kResult,
  kResultBlock,
  kResultType,
  kResultText,
  kResultSource,
  kResultMediaType,
  kResultData,
  kResultUrl,
  kSystem,
  kSystemBlock,
  kSystemType,
  kSystemText,
  kTools,
  kTool,
  kToolName,
  kToolDescription,
  kToolSchema,
  kToolStrict,
  kToolDefer,
};

constexpr codec::JsonField kFields[] = {
    LLMD_COMMON_FIELDS,
    {kRoot, "max_tokens", kCapFirst},
    {kRoot, "messages", kMessages},
    {kRoot, "system", kSystem},
    {kRoot, "tools", kTools},
    {kMessages, codec::kJsonElement, kMessage},
    {kMessage, "role", kRole},
    {kMessage, "content", kContent},
    {kContent, codec::kJsonElement, kBlock},
    {kBlock, "type", kType},
    {kBlock, "text", kText},
    {kBlock, "thinking", kThinking},
    {kBlock, "id", kToolUseId},
    {kBlock, "name", kToolUseName},
    {kBlock, "input", kToolInput},
    {kBlock, "source", kSource},
    {kBlock, "content", kResult},
    {kSource, "media_type", kMediaType},
    {kSource, "data", kData},
    {kSource, "url", kUrl},
    {kResult, codec::kJsonElement, kResultBlock},
    {kResultBlock, "type", kResultType},
    {kResultBlock, "text", kResultText},
    {kResultBlock, "source", kResultSource},
    {kResultSource, "media_type", kResultMediaType},
    {kResultSource, "data", kResultData},
    {kResultSource, "url", kResultUrl},
    {kSystem, codec::kJsonElement, kSystemBlock},
    {kSystemBlock, "type", kSystemType},
    {kSystemBlock, "text", kSystemText},
    {kTools, codec::kJsonElement, kTool},
    {kTool, "name", kToolName},
    {kTool, "description", kToolDescription},
    {kTool, "input_schema", kToolSchema},
    {kTool, "strict", kToolStrict},
    {kTool, "defer_loading", kToolDefer},
};
constexpr codec::JsonSchema kSchema(kFields);

enum class BlockType : uint8_t { kOther, kText, kImage, kThinking, kToolUse, kToolResult };

BlockType block_type(std::string_view name) {
  if (name == "text") return BlockType::kText;
  if (name == "image") return BlockType::kImage;
  if (name == "thinking") return BlockType::kThinking;
  if (name == "tool_use") return BlockType::kToolUse;
  if (name == "tool_result") return BlockType::kToolResult;
  return BlockType::kOther;
}

struct Source {
  Text media_type, data, url;
};

/// One stretch of the prompt, by offsets.
struct Part {
  enum class Kind : uint8_t { kText, kRaw, kNewline, kImage, kResultImage };
  Kind kind = Kind::kText;
  Text text;
  Range raw;
  Source source;
};

/// A content block while it is read; its members may come in any order. That of a tool's result has
/// a text, an image, or parts of its own.
struct Block {
  BlockType type = BlockType::kOther;
  Text text, thinking, id, name;
  Range input;
  Source source;
};

struct Tool {
  Text name, description;
  Range schema, strict, defer;  // empty: absent
};

/// Before the billing line that some clients put among the system texts, different in each request.
constexpr std::string_view kBillingHeader = "x-anthropic-billing-header";

class MessageScan final : public JsonBodyScan {
 public:
  explicit MessageScan(Arena& arena)
      : JsonBodyScan(Api::kMessages, kSchema,
                     {"error unmarshaling request body: ",
                      "error parsing messages request: json: cannot unmarshal value into Go struct "
                      "field MessagesRequest.cache_salt of type string"},
                     arena),
        parts_(arena),
        result_(arena),
        system_(arena),
        tools_(arena) {}

 private:
  void own_open(uint8_t id, JsonKind) override {
    switch (id) {
      case kMessages:
        parts_.clear();
        messages_ = 0;
        break;
      case kMessage:
        role_ = parts_.size();
        parts_.push_back({});
        break;
      case kContent:
        parts_.resize(role_ + 1);
        break;
      case kBlock:
        block_ = {};
        result_.clear();
        break;
      case kSource:
        block_.source = {};
        break;
      case kResult:
        result_.clear();
        break;
      case kResultBlock:
      case kSystemBlock:
        inner_ = {};
        break;
      case kResultSource:
        inner_.source = {};
        break;
      case kSystem:
        system_.clear();
        break;
      case kTools:
        tools_.clear();
        break;
      case kTool:
        tools_.push_back({});
        break;
      default:
        break;
    }
  }

  void own_value(uint8_t id, const JsonValue& v) override {
    if (id >= kTools) return tool_value(id, v);
    switch (id) {
      case kMessages:
        if (!expect_field(v, JsonKind::kArray, "messages")) parts_.clear();
        messages_ = v.kind == JsonKind::kArray ? v.count : 0;
        break;
      case kMessage:
        expect_field(v, JsonKind::kObject, "messages");
        break;
      case kRole:
        parts_[role_].text = {};
        if (expect_field(v, JsonKind::kString, "messages.role")) parts_[role_].text = text_of(v);
        break;
      case kContent:
        if (v.kind == JsonKind::kArray) break;
        parts_.resize(role_ + 1);
        if (expect_content(v)) put(parts_, text_of(v));
        break;
      case kBlock:
        if (expect_block(v)) end_block();
        break;
      case kResult:
        if (v.kind == JsonKind::kArray) break;
        result_.clear();
        if (expect_content(v)) put(result_, text_of(v));
        break;
      case kResultBlock:
        if (expect_block(v)) end_result_block();
        break;
      case kSystem:
        if (v.kind == JsonKind::kArray) break;
        system_.clear();
        if (expect_content(v)) system_.push_back({.text = text_of(v), .whole = true});
        break;
      case kSystemBlock:
        if (expect_block(v) && inner_.type == BlockType::kText)
          system_.push_back({.text = inner_.text});
        break;
      case kType:
      case kResultType:
      case kSystemType:
        type(id == kType ? block_ : inner_, v);
        break;
      case kText:
        block_.text = text(v);
        break;
      case kThinking:
        block_.thinking = text(v);
        break;
      case kToolUseId:
        block_.id = text(v);
        break;
      case kToolUseName:
        block_.name = text(v);
        break;
      case kToolInput:
        block_.input = {v.begin, v.end};
        break;
      case kSource:
      case kResultSource:
        expect_block(v);
        break;
      case kMediaType:
        block_.source.media_type = text(v);
        break;
      case kData:
        block_.source.data = text(v);
        break;
      case kUrl:
        block_.source.url = text(v);
        break;
      case kResultText:
      case kSystemText:
        inner_.text = text(v);
        break;
      case kResultMediaType:
        inner_.source.media_type = text(v);
        break;
      case kResultData:
        inner_.source.data = text(v);
        break;
      case kResultUrl:
        inner_.source.url = text(v);
        break;
      default:
        break;
    }
  }

  void tool_value(uint8_t id, const JsonValue& v) {
    if (id == kTools) {
      if (!expect_field(v, JsonKind::kArray, "tools")) tools_.clear();
      return;
    }
    if (id == kTool) {
      if (v.kind == JsonKind::kNull) tools_.push_back({});
      expect_field(v, JsonKind::kObject, "tools");
      return;
    }
    Tool& tool = tools_.back();
    const Range range{v.begin, v.end};
    switch (id) {
      case kToolName:
        tool.name = expect_field(v, JsonKind::kString, "tools.name") ? text_of(v) : Text{};
        break;
      case kToolDescription:
        tool.description =
            expect_field(v, JsonKind::kString, "tools.description") ? text_of(v) : Text{};
        break;
      case kToolSchema:
        tool.schema = range;
        break;
      case kToolStrict:
        tool.strict = expect_field(v, JsonKind::kBool, "tools.strict") ? range : Range{};
        break;
      case kToolDefer:
        tool.defer = expect_field(v, JsonKind::kBool, "tools.defer_loading") ? range : Range{};
        break;
      default:
        break;
    }
  }

  /// The first mistake is the one that is told.
  bool expect_field(const JsonValue& v, JsonKind kind, std::string_view field) {
    if (v.kind == kind) return true;
    if (v.kind != JsonKind::kNull && mistake_.empty()) {
      mistake_ = field;
      found_ = v.kind;
      wanted_ = kind;
    }
    return false;
  }
  bool expect_inside_content(const JsonValue& v, JsonKind kind) {
    if (v.kind == kind) return true;
    if (v.kind != JsonKind::kNull && mistake_.empty()) mistake_ = kContentMistake;
    return false;
  }
  bool expect_content(const JsonValue& v) { return expect_inside_content(v, JsonKind::kString); }
  bool expect_block(const JsonValue& v) { return expect_inside_content(v, JsonKind::kObject); }
  Text text(const JsonValue& v) { return expect_content(v) ? text_of(v) : Text{}; }
  void type(Block& block, const JsonValue& v) {
    block.type = BlockType::kOther;
    if (expect_content(v)) block.type = block_type(v.inside());
  }

  static void put(ArenaList<Part>& parts, const Text& text) {
    if (text.unescaped > 0) parts.push_back({.text = text});
  }

  void end_block() {
    switch (block_.type) {
      case BlockType::kText:
        put(parts_, block_.text);
        break;
      case BlockType::kThinking:
        put(parts_, block_.thinking);
        break;
      case BlockType::kImage:
        parts_.push_back({.kind = Part::Kind::kImage, .source = block_.source});
        break;
      case BlockType::kToolUse:
        put(parts_, block_.id);
        put(parts_, block_.name);
        if (block_.input.end > 0) parts_.push_back({.kind = Part::Kind::kRaw, .raw = block_.input});
        break;
      case BlockType::kToolResult:
        // All texts come before all images.
        for (const bool images : {false, true})
          for (const Part& part : result_.view())
            if ((part.kind == Part::Kind::kResultImage) == images) parts_.push_back(part);
        break;
      case BlockType::kOther:
        break;
    }
  }

  void end_result_block() {
    if (inner_.type == BlockType::kImage) {
      result_.push_back({.kind = Part::Kind::kResultImage, .source = inner_.source});
    } else if (inner_.type == BlockType::kText) {
      const auto is_text = [](const Part& part) { return part.kind != Part::Kind::kResultImage; };
      if (std::ranges::any_of(result_.view(), is_text))
        result_.push_back({.kind = Part::Kind::kNewline});
      result_.push_back({.text = inner_.text});
    }
  }

  bool complete() const override { return messages_ > 0; }

  std::string_view refusal(std::string_view body) const override {
    constexpr std::string_view kParsing = "error parsing messages request: ";
    if (mistake_ == kContentMistake)
      return arena_.copy(std::string(kParsing) + std::string(kContentMistake));
    if (!mistake_.empty())
      return arena_.copy(std::string(kParsing) + "json: cannot unmarshal " +
                         std::string(go_name(found_)) + " into Go struct field MessagesRequest." +
                         std::string(mistake_) + " of type " + std::string(go_name(wanted_)));
    if (refused()) return JsonBodyScan::refusal(body);
    return complete() ? "" : "invalid messages request: must have at least one message";
  }

  std::span<const Prompt> prompts(std::string_view body) override {
    auto pieces = arena_.array<Piece>(parts_.size() + system_.size() + 1);
    size_t count = 0;
    const auto put = [&](const Piece& piece) {
      if (piece.kind == Piece::Kind::kPlaceholder || piece.bytes > 0) pieces[count++] = piece;
    };
    if (!tools_.empty()) put(bytes(tools_json(body)));
    for (const System& system : system_.view())
      if (system.whole || !resolve(body, system.text).starts_with(kBillingHeader))
        put(piece(body, system.text));
    for (const Part& part : parts_.view()) {
      switch (part.kind) {
        case Part::Kind::kText:
          put(piece(body, part.text));
          break;
        case Part::Kind::kRaw:
          put(bytes(body.substr(part.raw.begin, part.raw.end - part.raw.begin)));
          break;
        case Part::Kind::kNewline:
          put(bytes("\n"));
          break;
        case Part::Kind::kImage:
        case Part::Kind::kResultImage:
          if (const auto image = placeholder(body, part)) put(*image);
          break;
      }
    }
    return one_prompt(pieces.first(count));
  }

  static Piece bytes(std::string_view text) { return {.text = text, .bytes = text.size()}; }

  /// An image by address, by its data, or, inside a tool's result, by the data URL made of it.
  /// Nothing for one without either.
  std::optional<Piece> placeholder(std::string_view body, const Part& part) const {
    std::string_view content = resolve(body, part.source.url);
    std::string_view data = resolve(body, part.source.data);
    if (content.empty() && data.empty()) return std::nullopt;
    const uint32_t tokens = content.empty() ? base64_image_tokens(data) : image_tokens(content);
    if (content.empty()) {
      content = data;
      if (part.kind == Part::Kind::kResultImage) {
        const std::string_view type = resolve(body, part.source.media_type);
        content = arena_.copy("data:" + std::string(type.empty() ? "image/jpeg" : type) +
                              ";base64," + std::string(data));
      }
    }
    return media_piece(Modality::kImage, content, tokens);
  }

  /// The tools as the reference writes them again.
  std::string_view tools_json(std::string_view body) const {
    ArenaList<char> out(arena_);
    const auto put = [&out](std::string_view text) { out.append({text.data(), text.size()}); };
    const auto put_raw = [&](std::string_view key, const Range& range) {
      if (range.end == 0) return;
      put(key);
      put(codec::go_raw_json(body.substr(range.begin, range.end - range.begin), arena_));
    };
    for (const Tool& tool : tools_.view()) {
      put(out.empty() ? "[{\"name\":" : ",{\"name\":");
      put(codec::go_json_string(resolve(body, tool.name), arena_));
      if (tool.description.unescaped > 0) {
        put(",\"description\":");
        put(codec::go_json_string(resolve(body, tool.description), arena_));
      }
      put_raw(",\"input_schema\":", tool.schema);
      put_raw(",\"strict\":", tool.strict);
      put_raw(",\"defer_loading\":", tool.defer);
      put("}");
    }
    put("]");
    return {out.view().data(), out.size()};
  }

  static constexpr std::string_view kContentMistake =
      "anthropic content: must be a string or an array of content blocks";

  struct System {
    Text text;
    bool whole = false;  // a string, not a block
  };

  ArenaList<Part> parts_;   // of each message: its role, then its content
  ArenaList<Part> result_;  // of the open block, when it is a tool's result
  ArenaList<System> system_;
  ArenaList<Tool> tools_;
  size_t role_ = 0;  // place of the open message's role
  size_t messages_ = 0;
  Block block_;
  Block inner_;               // of the open tool result, or of the system text
  std::string_view mistake_;  // a field, or kContentMistake
  JsonKind found_ = JsonKind::kNull;
  JsonKind wanted_ = JsonKind::kNull;
};

}  // namespace

BodyScan* scan_messages(Arena& arena) {
  return arena.make<MessageScan>(arena);
}

}  // namespace llmd::request
