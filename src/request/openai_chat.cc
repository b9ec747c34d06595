#include "media.h"
#include "openai_scan.h"

#include "request/video.h"

#include <cstring>

namespace llmd::request {
namespace {

using codec::JsonKind;
using codec::JsonValue;

enum : uint8_t {
  kMessages = kFirstOwn,
  kTools,
  kDocuments,
  kTemplate,
  kFlag,
  kTemplateArgs,
  kMessage,
  kRole,
  kContent,
  kToolCalls,
  kBlock,
  kType,
  kText,
  kImage,
  kVideo,
  kAudio,
  kRemoteAudio,
  kImageUrl,
  kVideoUrl,
  kAudioUrl,
  kAudioData,
  kAudioFormat,
};

constexpr codec::JsonField kFields[] = {
    LLMD_COMMON_FIELDS,
    {kRoot, "max_completion_tokens", kCapFirst},
    {kRoot, "max_tokens", kCapSecond},
    {kRoot, "messages", kMessages},
    {kRoot, "tools", kTools},
    {kRoot, "documents", kDocuments},
    {kRoot, "chat_template", kTemplate},
    {kRoot, "return_assistant_tokens_mask", kFlag},
    {kRoot, "continue_final_message", kFlag},
    {kRoot, "add_generation_prompt", kFlag},
    {kRoot, "chat_template_kwargs", kTemplateArgs},
    {kMessages, codec::kJsonElement, kMessage},
    {kMessage, "role", kRole},
    {kMessage, "content", kContent},
    {kMessage, "tool_calls", kToolCalls},
    {kContent, codec::kJsonElement, kBlock},
    {kBlock, "type", kType},
    {kBlock, "text", kText},
    {kBlock, "image_url", kImage},
    {kBlock, "video_url", kVideo},
    {kBlock, "input_audio", kAudio},
    {kBlock, "audio_url", kRemoteAudio},
    {kImage, "url", kImageUrl},
    {kVideo, "url", kVideoUrl},
    {kRemoteAudio, "url", kAudioUrl},
    {kAudio, "data", kAudioData},
    {kAudio, "format", kAudioFormat},
};
constexpr codec::JsonSchema kSchema(kFields);

enum class BlockType : uint8_t { kOther, kText, kImage, kVideo, kAudio, kRemoteAudio };

BlockType block_type(std::string_view name) {
  if (name == "text") return BlockType::kText;
  if (name == "image_url") return BlockType::kImage;
  if (name == "video_url") return BlockType::kVideo;
  if (name == "input_audio") return BlockType::kAudio;
  if (name == "audio_url") return BlockType::kRemoteAudio;
  return BlockType::kOther;
}

/// One stretch of the prompt, by offsets. `extra` is the format of audio.
struct Part {
  BlockType type = BlockType::kText;
  Text text;
  Text extra;
};

/// A content block while it is read; its members may come in any order.
struct Block {
  BlockType type = BlockType::kOther;
  Text text, image, video, audio, audio_format, audio_url;
};

class ChatScan final : public JsonBodyScan {
 public:
  explicit ChatScan(Arena& arena)
      : JsonBodyScan(
            Api::kChat, kSchema,
            {kMalformedMap, "invalid chat completions request: must have valid messages field"},
            arena),
        parts_(arena) {}

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
        break;
      case kImage:
        block_.image = {};
        break;
      case kVideo:
        block_.video = {};
        break;
      case kAudio:
        block_.audio = block_.audio_format = {};
        break;
      case kRemoteAudio:
        block_.audio_url = {};
        break;
      default:
        break;
    }
  }

  void own_value(uint8_t id, const JsonValue& v) override {
    switch (id) {
      case kMessages:
        if (!expect(v, JsonKind::kArray)) parts_.clear();
        messages_ = v.count;
        break;
      case kTools:
        tools_ = Range{};
        if (expect(v, JsonKind::kArray) && v.count > 0) tools_ = {v.begin, v.end};
        break;
      case kDocuments:
      case kToolCalls:
        expect(v, JsonKind::kArray);
        break;
      case kTemplate:
        expect(v, JsonKind::kString);
        break;
      case kFlag:
        expect(v, JsonKind::kBool);
        break;
      case kTemplateArgs:
      case kMessage:
      case kImage:
      case kVideo:
      case kAudio:
        expect(v, JsonKind::kObject);
        break;
      case kRole:
        parts_[role_].text = text(v);
        break;
      case kContent:
        content(v);
        break;
      case kBlock:
        if (expect(v, JsonKind::kObject)) end_block();
        break;
      case kType:
        block_.type = BlockType::kOther;
        if (expect(v, JsonKind::kString)) block_.type = block_type(v.inside());
        break;
      case kText:
        block_.text = text(v);
        break;
      case kImageUrl:
        block_.image = text(v);
        break;
      case kVideoUrl:
        block_.video = text(v);
        break;
      case kAudioUrl:  // a wrong type is no reason to refuse: the API does not check this one
        block_.audio_url = v.kind == JsonKind::kString ? text_of(v) : Text{};
        break;
      case kAudioData:
        block_.audio = text(v);
        break;
      case kAudioFormat:
        block_.audio_format = text(v);
        break;
      default:
        break;
    }
  }

  Text text(const JsonValue& v) { return expect(v, JsonKind::kString) ? text_of(v) : Text{}; }

  void content(const JsonValue& v) {
    if (v.kind == JsonKind::kArray) return;
    parts_.resize(role_ + 1);
    if (expect(v, JsonKind::kString)) parts_.push_back({BlockType::kText, text_of(v), {}});
  }

  void end_block() {
    switch (block_.type) {
      case BlockType::kText:
        parts_.push_back({BlockType::kText, block_.text, {}});
        break;
      case BlockType::kImage:
        parts_.push_back({BlockType::kImage, block_.image, {}});
        break;
      case BlockType::kVideo:
        parts_.push_back({BlockType::kVideo, block_.video, {}});
        break;
      case BlockType::kAudio:
        parts_.push_back({BlockType::kAudio, block_.audio, block_.audio_format});
        break;
      case BlockType::kRemoteAudio:
        parts_.push_back({BlockType::kRemoteAudio, block_.audio_url, {}});
        break;
      case BlockType::kOther:
        break;
    }
  }

  bool complete() const override { return messages_ > 0; }

  std::span<const Prompt> prompts(std::string_view body) override {
    auto pieces = arena_.array<Piece>(parts_.size() + 1);
    size_t count = 0;
    if (tools_.end > 0) {
      const std::string_view tools = rewritten(body, tools_);
      pieces[count++] = {.text = tools, .bytes = tools.size()};
    }
    for (const Part& part : parts_.view()) {
      if (part.type != BlockType::kText) {
        pieces[count++] = placeholder(body, part);
      } else if (part.text.unescaped > 0) {
        pieces[count++] = piece(body, part.text);
      }
    }
    return one_prompt(pieces.first(count));
  }

  Piece placeholder(std::string_view body, const Part& part) const {
    const std::string_view content = resolve(body, part.text);
    switch (part.type) {
      case BlockType::kImage:
        return media_piece(Modality::kImage, content, image_tokens(content));
      case BlockType::kAudio:
        return media_piece(Modality::kAudio, join(content, resolve(body, part.extra)),
                           audio_tokens(content));
      case BlockType::kRemoteAudio:
        return media_piece(Modality::kAudio, content, audio_tokens({}));
      default:
        return media_piece(Modality::kVideo, content, video_tokens({}));
    }
  }

  std::string_view join(std::string_view a, std::string_view b) const {
    if (b.empty()) return a;
    char* const out = static_cast<char*>(arena_.allocate(a.size() + b.size(), 1));
    if (!a.empty()) std::memcpy(out, a.data(), a.size());
    std::memcpy(out + a.size(), b.data(), b.size());
    return {out, a.size() + b.size()};
  }

  ArenaList<Part> parts_;  // of each message: its role, then its content
  size_t role_ = 0;        // place of the open message's role
  size_t messages_ = 0;
  Range tools_;  // empty: none
  Block block_;
};

}  // namespace

BodyScan* scan_chat(Arena& arena) {
  return arena.make<ChatScan>(arena);
}

}  // namespace llmd::request
