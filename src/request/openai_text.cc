#include "openai_scan.h"

namespace llmd::request {
namespace {

using codec::JsonKind;
using codec::JsonValue;

enum : uint8_t { kInput = kFirstOwn, kInputItem, kListToken };

/// Completions and embeddings: one field that is a string, a list of strings, a list of token ids
/// or a list of lists of token ids. The last of these is refused by the reference and accepted by
/// model servers: each inner list is a prompt of its own.
class TextScan : public JsonBodyScan {
 public:
  TextScan(Api api, const codec::JsonSchema& schema, Texts texts, Arena& arena)
      : JsonBodyScan(api, schema, texts, arena), texts_(arena), tokens_(arena), list_ends_(arena) {}

 protected:
  ~TextScan() = default;

  void own_open(uint8_t id, JsonKind kind) final {
    if (id == kInput) clear();
    if (id == kInputItem && kind == JsonKind::kArray) require(Shape::kTokenLists);
  }

  void own_value(uint8_t id, const JsonValue& v) final {
    if (id == kInputItem) return item(v);
    if (id == kListToken) return token(v);
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

  std::span<const Prompt> token_prompts() {
    if (shape_ == Shape::kTokens) list_ends_.push_back(tokens_.size());
    auto prompts = arena_.array<Prompt>(list_ends_.size());
    size_t begin = 0;
    for (size_t i = 0; i < prompts.size(); ++i) {
      prompts[i].token_ids = tokens_.view().subspan(begin, list_ends_[i] - begin);
      begin = list_ends_[i];
    }
    return prompts;
  }

  ArenaList<Text> texts_;
  ArenaList<uint32_t> tokens_;
  Range value_;
  bool single_ = false;

 private:
  enum class Shape : uint8_t { kNone, kTexts, kTokens, kTokenLists };

  void clear() {
    texts_.clear();
    tokens_.clear();
    list_ends_.clear();
    single_ = false;
    shape_ = Shape::kNone;
  }

  /// Refuses lists of mixed elements.
  void require(Shape shape) {
    if (shape_ == Shape::kNone) shape_ = shape;
    if (shape_ != shape) refuse();
  }

  void item(const JsonValue& v) {
    if (v.kind == JsonKind::kString) {
      require(Shape::kTexts);
      texts_.push_back(text_of(v));
    } else if (v.kind == JsonKind::kArray) {
      list_ends_.push_back(tokens_.size());
    } else {
      require(Shape::kTokens);
      token(v);
    }
  }

  void token(const JsonValue& v) {
    const auto id = v.kind == JsonKind::kNumber ? whole_number(v.text, UINT32_MAX) : std::nullopt;
    if (!id) return refuse();
    tokens_.push_back(static_cast<uint32_t>(*id));
  }

  ArenaList<size_t> list_ends_;  // in tokens_
  Shape shape_ = Shape::kNone;   // of the list
};

constexpr codec::JsonField kCompletionFields[] = {
    LLMD_COMMON_FIELDS,
    {kRoot, "max_tokens", kCapFirst},
    {kRoot, "prompt", kInput},
    {kInput, codec::kJsonElement, kInputItem},
    {kInputItem, codec::kJsonElement, kListToken},
};
constexpr codec::JsonSchema kCompletionSchema(kCompletionFields);

class CompletionScan final : public TextScan {
 public:
  explicit CompletionScan(Arena& arena)
      : TextScan(Api::kCompletions, kCompletionSchema,
                 {kMalformedMap, "invalid completions request: must have prompt field"}, arena) {}

 private:
  std::span<const Prompt> prompts(std::string_view body) override {
    if (!tokens_.empty()) return token_prompts();
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
    LLMD_COMMON_FIELDS,
    {kRoot, "input", kInput},
    {kInput, codec::kJsonElement, kInputItem},
    {kInputItem, codec::kJsonElement, kListToken},
};
constexpr codec::JsonSchema kEmbeddingSchema(kEmbeddingFields);

class EmbeddingScan final : public TextScan {
 public:
  explicit EmbeddingScan(Arena& arena)
      : TextScan(Api::kEmbeddings, kEmbeddingSchema,
                 {kMalformedMap, "invalid embeddings request: must have input field"}, arena) {}

 private:
  /// The reference hashes the JSON of its own record of the input.
  std::span<const Prompt> prompts(std::string_view body) override {
    if (!tokens_.empty()) return token_prompts();
    const std::string_view input = rewritten(body, value_);
    const std::string_view before = single_ ? R"({"Raw":)" : R"({"Raw":"","Strings":)";
    const std::string_view after =
        single_ ? R"(,"Strings":null,"TokenIDs":null})" : R"(,"TokenIDs":null})";
    auto pieces = arena_.array<Piece>(3);
    size_t i = 0;
    for (std::string_view text : {before, input, after})
      pieces[i++] = {.text = text, .bytes = text.size()};
    return one_prompt(pieces);
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
