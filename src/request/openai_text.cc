#include "openai_scan.h"

#include "codec/go_json.h"

namespace llmd::request {
namespace {

using codec::JsonKind;
using codec::JsonValue;

enum : uint8_t { kInput = kFirstOwn, kInputItem };

/// Completions and embeddings: one field that is a string, a list of strings or a list of token
/// ids.
class TextScan : public OpenAiScan {
 public:
  TextScan(Api api, const codec::JsonSchema& schema, std::string_view refusal, Arena& arena)
      : OpenAiScan(api, schema, refusal, arena), texts_(arena), tokens_(arena) {}

 protected:
  ~TextScan() = default;

  void own_open(uint8_t id, JsonKind) final {
    if (id == kInput) clear();
  }

  void own_value(uint8_t id, const JsonValue& v) final {
    if (id == kInputItem) return item(v);
    if (v.kind == JsonKind::kArray) {
      value_ = Range{v.begin, v.end};
      return;
    }
    clear();
    if (!expect(v, JsonKind::kString)) return;
    single_ = true;
    value_ = Range{v.begin, v.end};
    if (v.unescaped > 0) texts_.push_back(text_of(v));
  }

  bool complete() const final { return !texts_.empty() || !tokens_.empty(); }

  std::span<const Prompt> token_prompt() {
    auto prompts = arena_.array<Prompt>(1);
    prompts[0].token_ids = tokens_.view();
    return prompts;
  }

  ArenaList<Text> texts_;
  ArenaList<uint32_t> tokens_;
  Range value_;
  bool single_ = false;

 private:
  void clear() {
    texts_.clear();
    tokens_.clear();
    single_ = false;
  }

  void item(const JsonValue& v) {
    if (v.kind == JsonKind::kString && tokens_.empty()) {
      texts_.push_back(text_of(v));
    } else if (v.kind == JsonKind::kNumber && texts_.empty()) {
      const auto token = whole_number(v.text, UINT32_MAX);
      if (!token) return refuse();
      tokens_.push_back(static_cast<uint32_t>(*token));
    } else {
      refuse();
    }
  }
};

constexpr codec::JsonField kCompletionFields[] = {
    LLMD_OPENAI_FIELDS,
    {kRoot, "max_tokens", kCapFirst},
    {kRoot, "prompt", kInput},
    {kInput, codec::kJsonElement, kInputItem},
};
constexpr codec::JsonSchema kCompletionSchema(kCompletionFields);

class CompletionScan final : public TextScan {
 public:
  explicit CompletionScan(Arena& arena)
      : TextScan(Api::kCompletions, kCompletionSchema,
                 "invalid completions request: must have prompt field", arena) {}

 private:
  std::span<const Prompt> prompts(std::string_view body) override {
    if (!tokens_.empty()) return token_prompt();
    auto prompts = arena_.array<Prompt>(texts_.size());
    auto pieces = arena_.array<Piece>(texts_.size());
    for (size_t i = 0; i < texts_.size(); ++i) {
      pieces[i] = piece(body, texts_[i]);
      if (pieces[i].bytes > 0) prompts[i].pieces = pieces.subspan(i, 1);
    }
    return prompts;
  }
};

constexpr codec::JsonField kEmbeddingFields[] = {
    LLMD_OPENAI_FIELDS,
    {kRoot, "input", kInput},
    {kInput, codec::kJsonElement, kInputItem},
};
constexpr codec::JsonSchema kEmbeddingSchema(kEmbeddingFields);

class EmbeddingScan final : public TextScan {
 public:
  explicit EmbeddingScan(Arena& arena)
      : TextScan(Api::kEmbeddings, kEmbeddingSchema,
                 "invalid embeddings request: must have input field", arena) {}

 private:
  /// The reference hashes the JSON of its own record of the input.
  std::span<const Prompt> prompts(std::string_view body) override {
    if (!tokens_.empty()) return token_prompt();
    const std::string_view input =
        codec::go_json(body.substr(value_.begin, value_.end - value_.begin), arena_);
    const std::string_view before = single_ ? R"({"Raw":)" : R"({"Raw":"","Strings":)";
    const std::string_view after =
        single_ ? R"(,"Strings":null,"TokenIDs":null})" : R"(,"TokenIDs":null})";
    auto pieces = arena_.array<Piece>(3);
    size_t i = 0;
    for (std::string_view text : {before, input, after})
      pieces[i++] = {.text = text, .bytes = text.size()};
    auto prompts = arena_.array<Prompt>(1);
    prompts[0].pieces = pieces;
    return prompts;
  }
};

}  // namespace

BodyScan* scan_completions(Arena& arena) {
  return arena.make<CompletionScan>(arena);
}
BodyScan* scan_embeddings(Arena& arena) {
  return arena.make<EmbeddingScan>(arena);
}

}  // namespace llmd::request
