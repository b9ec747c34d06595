#pragma once

#include "base/arena.h"
#include "base/arena_list.h"
#include "codec/json_scan.h"
#include "request/parser.h"

#include <optional>
#include <string_view>

namespace llmd::request {

/// Ids of the fields that every OpenAI body has; those of one API start at kFirstOwn.
enum : uint8_t { kRoot, kModel, kStream, kCapFirst, kCapSecond, kSalt, kFirstOwn = 8 };

/// A string value of the body, by offset.
struct Text {
  size_t begin = 0;  // of the inside
  size_t end = 0;
  size_t unescaped = 0;

  bool escaped() const { return unescaped != end - begin; }
};
inline Text text_of(const codec::JsonValue& v) {
  return {v.begin + 1, v.end - 1, v.unescaped};
}

/// What all OpenAI bodies share: the pass over the JSON, the common fields, the errors. A subclass
/// keeps its own fields as offsets and turns them into prompts once the body is complete. Rules
/// (spec 01 §6): the last of repeated keys wins; null counts as absent; a kept field of the wrong
/// type refuses the request with the API's own message, whether or not a later repetition is right.
class OpenAiScan : public BodyScan, protected codec::JsonSink {
 public:
  void feed(std::string_view body) final { scanner_.feed(body); }
  Result<RequestView> finish(std::string_view body) final;

 protected:
  OpenAiScan(Api api, const codec::JsonSchema& schema, std::string_view refusal, Arena& arena)
      : arena_(arena), scanner_(schema, *this), api_(api), refusal_(refusal) {}
  ~OpenAiScan() = default;

  /// A field of the API itself.
  virtual void own_open(uint8_t id, codec::JsonKind kind) = 0;
  virtual void own_value(uint8_t id, const codec::JsonValue& value) = 0;
  /// Whether the required field is there. Called first of the two.
  virtual bool complete() const = 0;
  virtual std::span<const Prompt> prompts(std::string_view body) = 0;

  /// Refuses the request unless the value is null or of kind `allowed`.
  bool expect(const codec::JsonValue& value, codec::JsonKind allowed) {
    if (value.kind == allowed) return true;
    if (value.kind != codec::JsonKind::kNull) bad_ = true;
    return false;
  }
  void refuse() { bad_ = true; }

  /// The text of `text` with escapes resolved: a view into the body, or into the arena.
  std::string_view resolve(std::string_view body, const Text& text) const;
  Piece piece(std::string_view body, const Text& text) const;
  /// The value at `range` as the reference would write it again.
  std::string_view rewritten(std::string_view body, Range range) const;
  /// The one prompt that consists of `pieces`.
  std::span<const Prompt> one_prompt(std::span<const Piece> pieces) const;

  Arena& arena_;

 private:
  void open(uint8_t id, codec::JsonKind kind, size_t at) final;
  void value(uint8_t id, const codec::JsonValue& value) final;

  codec::JsonScanner scanner_;
  Api api_;
  std::string_view refusal_;  // why an incomplete or mistyped request is refused
  codec::JsonKind root_ = codec::JsonKind::kNull;
  bool bad_ = false;
  bool stream_ = false;
  std::optional<Range> model_value_;
  std::optional<Text> model_;
  std::optional<Text> salt_;
  std::optional<int64_t> caps_[2];
};

/// Fields common to all schemas, for use inside an array of JsonField.
#define LLMD_OPENAI_FIELDS                                \
  {kRoot, "model", kModel}, {kRoot, "stream", kStream}, { \
    kRoot, "cache_salt", kSalt                            \
  }

/// A number as an integer when it is whole and in [0, max]; any JSON spelling of it counts.
std::optional<int64_t> whole_number(std::string_view json, int64_t max);

/// One scan per API, made in `arena`.
BodyScan* scan_completions(Arena& arena);
BodyScan* scan_embeddings(Arena& arena);
BodyScan* scan_chat(Arena& arena);
BodyScan* scan_responses(Arena& arena);
BodyScan* scan_conversations(Arena& arena);
BodyScan* scan_images(Arena& arena);

}  // namespace llmd::request
