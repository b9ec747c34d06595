#include "json_body_scan.h"

#include "codec/go_json.h"
#include "codec/json_text.h"

#include <charconv>
#include <cmath>
#include <limits>

namespace llmd::request {
namespace {

using codec::JsonKind;

constexpr int64_t kCapMax = std::numeric_limits<int64_t>::max();

}  // namespace

std::string_view go_name(JsonKind kind) {
  switch (kind) {
    case JsonKind::kNull:
      return "null";
    case JsonKind::kBool:
      return "bool";
    case JsonKind::kNumber:
      return "number";
    case JsonKind::kString:
      return "string";
    case JsonKind::kArray:
      return "array";
    case JsonKind::kObject:
      return "object";
  }
  return "value";
}

std::optional<int64_t> whole_number(std::string_view json, int64_t max) {
  int64_t whole = 0;
  if (json.size() <= 18) {  // cannot overflow
    size_t i = 0;
    for (; i < json.size() && json[i] >= '0' && json[i] <= '9'; ++i)
      whole = whole * 10 + (json[i] - '0');
    if (i == json.size() && i > 0) return whole <= max ? std::optional(whole) : std::nullopt;
  }
  const char* const end = json.data() + json.size();
  if (const auto [p, error] = std::from_chars(json.data(), end, whole);
      p == end && error == std::errc())
    return whole >= 0 && whole <= max ? std::optional(whole) : std::nullopt;
  double value = 0;  // with a fraction or an exponent
  if (const auto [p, error] = std::from_chars(json.data(), end, value);
      p != end || error != std::errc())
    return std::nullopt;
  if (value < 0 || value >= 0x1p63 || value != std::floor(value)) return std::nullopt;
  whole = static_cast<int64_t>(value);
  return whole <= max ? std::optional(whole) : std::nullopt;
}

void JsonBodyScan::open(uint8_t id, JsonKind kind, size_t) {
  if (id >= kFirstOwn) own_open(id, kind);
}

void JsonBodyScan::value(uint8_t id, const codec::JsonValue& v) {
  switch (id) {
    case kRoot:
      root_ = v.kind;
      break;
    case kModel:
      model_value_ = Range{v.begin, v.end};
      model_.reset();
      if (v.kind == JsonKind::kString) model_ = text_of(v);
      break;
    case kStream:
      stream_ = v.kind == JsonKind::kBool && v.text == "true";
      break;
    case kCapFirst:
    case kCapSecond:
      caps_[id - kCapFirst] =
          v.kind == JsonKind::kNumber ? whole_number(v.text, kCapMax) : std::nullopt;
      break;
    case kSalt:
      salt_.reset();
      if (expect(v, JsonKind::kString)) salt_ = text_of(v);
      break;
    case kPromptLogprobs:
      prompt_logprobs_ = v.kind != JsonKind::kNull;
      break;
    case kEcho:
      echo_ = v.kind == JsonKind::kBool && v.text == "true";
      break;
    default:
      own_value(id, v);
  }
}

Result<RequestView> JsonBodyScan::finish(std::string_view body) {
  if (!scanner_.feed(body) || !scanner_.finish())
    return fail(Code::kBadRequest, std::string(texts_.malformed) + scanner_.error().text());
  if (root_ != JsonKind::kObject && root_ != JsonKind::kNull)
    return fail(Code::kBadRequest, std::string(texts_.malformed) + "json: cannot unmarshal " +
                                       std::string(go_name(root_)) +
                                       " into Go value of type map[string]interface {}");
  if (const auto why = refusal(body); !why.empty())
    return fail(Code::kBadRequest, std::string(why));

  RequestView view;
  view.api = api_;
  if (model_) view.model = resolve(body, *model_);
  view.model_value = model_value_;
  view.stream = stream_;
  view.max_output_tokens = caps_[0] ? caps_[0] : caps_[1];
  if (salt_) view.cache_salt = resolve(body, *salt_);
  view.prompt_logprobs = prompt_logprobs_ || echo_;
  view.prompts = prompts(body);
  view.rewritable = rewritable();
  return view;
}

std::string_view JsonBodyScan::resolve(std::string_view body, const Text& text) const {
  const std::string_view raw = body.substr(text.begin, text.end - text.begin);
  if (!text.escaped()) return raw;
  char* const out = static_cast<char*>(arena_.allocate(raw.size(), 1));
  return {out, codec::unescape_json(raw, out)};
}

Piece JsonBodyScan::piece(std::string_view body, const Text& text) const {
  Piece piece;
  piece.kind = text.escaped() ? Piece::Kind::kEscaped : Piece::Kind::kBytes;
  piece.text = body.substr(text.begin, text.end - text.begin);
  piece.bytes = text.unescaped;
  return piece;
}

std::string_view JsonBodyScan::rewritten(std::string_view body, Range range) const {
  return codec::go_json(body.substr(range.begin, range.end - range.begin), arena_);
}

std::span<const Prompt> JsonBodyScan::one_prompt(std::span<const Piece> pieces) const {
  const auto prompts = arena_.array<Prompt>(1);
  prompts[0].pieces = pieces;
  return prompts;
}

}  // namespace llmd::request
