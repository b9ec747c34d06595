#pragma once

#include "base/arena.h"
#include "base/arena_list.h"
#include "codec/json_scan.h"
#include "request/parser.h"

#include <optional>
#include <string_view>

namespace llmd::request {

/// Ids of the fields that most bodies have; those of one API start at kFirstOwn.
enum : uint8_t {
  kRoot,
  kModel,
  kStream,
  kCapFirst,
  kCapSecond,
  kSalt,
  kPromptLogprobs,
  kEcho,
  kFirstOwn
};

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

/// What all JSON bodies share: the pass over the document, the common fields, the errors. A
/// subclass keeps its own fields as offsets and turns them into prompts once the body is complete.
/// Rules (spec 01 §6): the last of repeated keys wins; null counts as absent; a kept field of the
/// wrong type refuses the request with the API's own message, whether or not a later repetition is
/// right.
class JsonBodyScan : public BodyScan, protected codec::JsonSink {
 public:
  void feed(std::string_view body) final { scanner_.feed(body); }
  Result<RequestView> finish(std::string_view body) final;

 protected:
  /// How the errors of an API read.
  struct Texts {
    std::string_view malformed;  // what comes before the error of the JSON itself
    std::string_view refusal;    // of an incomplete or mistyped request
  };
  JsonBodyScan(Api api, const codec::JsonSchema& schema, Texts texts, Arena& arena)
      : arena_(arena), scanner_(schema, *this), api_(api), texts_(texts) {}
  ~JsonBodyScan() = default;

  /// A field of the API itself.
  virtual void own_open(uint8_t id, codec::JsonKind kind) = 0;
  virtual void own_value(uint8_t id, const codec::JsonValue& value) = 0;
  /// Whether the required field is there.
  virtual bool complete() const = 0;
  /// Why the whole document is refused; empty: it is not.
  virtual std::string_view refusal(std::string_view /*body*/) const {
    return bad_ || !complete() ? texts_.refusal : std::string_view{};
  }
  /// Whether "model" may be replaced in the body.
  virtual bool rewritable() const { return true; }
  /// Of a request that is not refused.
  virtual std::span<const Prompt> prompts(std::string_view body) = 0;

  /// Refuses the request unless the value is null or of kind `allowed`.
  bool expect(const codec::JsonValue& value, codec::JsonKind allowed) {
    if (value.kind == allowed) return true;
    if (value.kind != codec::JsonKind::kNull) bad_ = true;
    return false;
  }
  void refuse() { bad_ = true; }
  bool refused() const { return bad_; }
  /// The object that holds the cap starts anew.
  void forget_caps() { caps_[0] = caps_[1] = std::nullopt; }

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
  Texts texts_;
  codec::JsonKind root_ = codec::JsonKind::kNull;
  bool bad_ = false;
  bool stream_ = false;
  std::optional<Range> model_value_;
  std::optional<Text> model_;
  std::optional<Text> salt_;
  bool prompt_logprobs_ = false;
  bool echo_ = false;
  std::optional<int64_t> caps_[2];
};

/// Fields common to all schemas, for use inside an array of JsonField.
#define LLMD_COMMON_FIELDS                                                            \
  {kRoot, "model", kModel}, {kRoot, "stream", kStream}, {kRoot, "cache_salt", kSalt}, \
      {kRoot, "prompt_logprobs", kPromptLogprobs}, {                                  \
    kRoot, "echo", kEcho                                                              \
  }

/// The kind of a value in the words of Go's encoding/json.
std::string_view go_name(codec::JsonKind kind);

/// A number as an integer when it is whole and in [0, max]; any JSON spelling of it counts.
std::optional<int64_t> whole_number(std::string_view json, int64_t max);

}  // namespace llmd::request
