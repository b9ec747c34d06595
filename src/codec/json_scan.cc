#include "codec/json_scan.h"

#include "byte_search.h"

#include "codec/json_text.h"

#include <algorithm>
#include <cstring>

namespace llmd::codec {
namespace {

constexpr size_t kKeyMax = 64;  // JsonSchema's bound
constexpr size_t kEscapedKeyMax = 6 * kKeyMax;

bool is_space(char c) {
  return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}
bool is_digit(char c) {
  return static_cast<unsigned char>(c - '0') < 10;
}

/// The value of a hexadecimal digit, or 16.
uint32_t hex_digit(char c) {
  if (is_digit(c)) return static_cast<uint32_t>(c - '0');
  const auto lower = static_cast<unsigned char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10u : 16u;
}

bool is_short_escape(char c) {
  switch (c) {
    case '"':
    case '\\':
    case '/':
    case 'b':
    case 'f':
    case 'n':
    case 'r':
    case 't':
      return true;
    default:
      return false;
  }
}

}  // namespace

bool JsonScanner::feed(std::string_view body) {
  data_ = body.data();
  base_ = 0;
  p_ = data_ + position_;
  end_ = data_ + body.size();
  return scan();
}

bool JsonScanner::feed_chunk(std::string_view chunk) {
  if (chunk.empty()) return state_ != State::kFailed;
  data_ = p_ = chunk.data();
  base_ = position_;
  end_ = data_ + chunk.size();
  const bool good = scan();
  if (good && token_open_) hold_token();
  return good;
}

bool JsonScanner::finish() {
  data_ = p_ = end_ = nullptr;
  base_ = position_;
  if (state_ == State::kNumber && depth_ == 0 &&
      (number_ == Number::kZero || number_ == Number::kWhole || number_ == Number::kFraction ||
       number_ == Number::kExpDigits)) {
    end_scalar(JsonKind::kNumber);
  }
  if (state_ == State::kDone) return true;
  if (state_ != State::kFailed) {
    state_ = State::kFailed;
    error_ = {.kind = JsonError::Kind::kEnd, .offset = position_};
  }
  return false;
}

[[gnu::flatten]] bool JsonScanner::scan() {
  while (step()) {
  }
  position_ = offset();
  return state_ != State::kFailed;
}

bool JsonScanner::step() {
  switch (state_) {
    case State::kString:
      return step_string();
    case State::kEscape:
      return step_escape();
    case State::kHex:
      return step_hex();
    case State::kNumber:
      return step_number();
    case State::kLiteral:
      return step_literal();
    case State::kFailed:
      return false;
    default:
      break;
  }
  if (!skip_space()) return false;
  switch (state_) {
    case State::kArrayFirst:
      if (*p_ == ']') return close(JsonKind::kArray);
      if (tracked()) {
        id_ = level_[levels_ - 1].element;
        ++level_[levels_ - 1].count;
      }
      return step_value();
    case State::kValue:
      return step_value();
    case State::kObjectFirst:
      if (*p_ == '}') return close(JsonKind::kObject);
      return step_key();
    case State::kKey:
      return step_key();
    case State::kColon:
      if (*p_ != ':') return fail(JsonError::Kind::kColon);
      ++p_;
      state_ = State::kValue;
      return true;
    case State::kAfter:
      return step_after();
    default:
      return fail(JsonError::Kind::kAfterDocument);
  }
}

bool JsonScanner::skip_space() {
  while (p_ < end_ && is_space(*p_)) ++p_;
  return p_ < end_;
}

bool JsonScanner::step_value() {
  switch (*p_) {
    case '"':
      start_string(false);
      return true;
    case '{':
      return open(JsonKind::kObject);
    case '[':
      return open(JsonKind::kArray);
    case 't':
      return start_literal("true", JsonKind::kBool);
    case 'f':
      return start_literal("false", JsonKind::kBool);
    case 'n':
      return start_literal("null", JsonKind::kNull);
    default:
      break;
  }
  if (*p_ != '-' && !is_digit(*p_)) return fail(JsonError::Kind::kValue);
  token_begin_ = offset();
  token_open_ = true;
  number_ = *p_ == '-' ? Number::kMinus : *p_ == '0' ? Number::kZero : Number::kWhole;
  ++p_;
  state_ = State::kNumber;
  return step_number();
}

bool JsonScanner::step_key() {
  if (*p_ != '"') return fail(JsonError::Kind::kKey);
  return start_string(true);
}

bool JsonScanner::step_after() {
  const bool object = in_object();
  if (*p_ == ',') {
    ++p_;
    state_ = object ? State::kKey : State::kValue;
    if (!object && tracked()) {
      id_ = level_[levels_ - 1].element;
      ++level_[levels_ - 1].count;
    }
    return true;
  }
  if (*p_ == (object ? '}' : ']')) return close(object ? JsonKind::kObject : JsonKind::kArray);
  return fail(object ? JsonError::Kind::kAfterMember : JsonError::Kind::kAfterElement);
}

bool JsonScanner::open(JsonKind kind) {
  if (depth_ == kJsonDepthMax) return fail(JsonError::Kind::kDepth);
  if (id_ != kNoId && tracked() && levels_ < kJsonLevelsMax) {
    const JsonField* element = schema_.begin(id_);
    while (element != schema_.end(id_) && !element->key.empty()) ++element;
    const uint8_t element_id = element == schema_.end(id_) ? kNoId : element->id;
    level_[levels_++] = {offset(), 0, id_, kind == JsonKind::kArray ? element_id : kNoId};
    sink_.open(id_, kind, offset());
  }
  const uint64_t bit = uint64_t{1} << (depth_ % 64);
  uint64_t& word = objects_[depth_ / 64];
  word = kind == JsonKind::kObject ? word | bit : word & ~bit;
  ++depth_;
  id_ = kNoId;
  ++p_;
  state_ = kind == JsonKind::kObject ? State::kObjectFirst : State::kArrayFirst;
  return true;
}

bool JsonScanner::close(JsonKind kind) {
  ++p_;
  if (tracked()) {
    const Level& level = level_[--levels_];
    JsonValue value{kind, level.begin, offset(), 0, level.count, {}};
    if (level.begin >= base_) value.text = {data_ + (level.begin - base_), value.end - level.begin};
    sink_.value(level.id, value);
  }
  --depth_;
  after_value();
  return true;
}

void JsonScanner::after_value() {
  id_ = kNoId;
  state_ = depth_ == 0 ? State::kDone : State::kAfter;
}

bool JsonScanner::start_literal(const char* literal, JsonKind kind) {
  literal_ = literal;
  literal_kind_ = kind;
  literal_at_ = 1;
  token_begin_ = offset();
  token_open_ = true;
  ++p_;
  state_ = State::kLiteral;
  return true;
}

bool JsonScanner::step_literal() {
  for (; literal_[literal_at_] != 0; ++literal_at_, ++p_) {
    if (p_ == end_) return false;
    if (*p_ != literal_[literal_at_]) return fail(JsonError::Kind::kLiteral);
  }
  end_scalar(literal_kind_);
  return true;
}

bool JsonScanner::step_number() {
  if (number_ == Number::kWhole) {
    const char* p = p_;
    while (p < end_ && is_digit(*p)) ++p;
    p_ = p;
  }
  for (; p_ < end_; ++p_) {
    const char c = *p_;
    const bool exponent = (c | 0x20) == 'e';
    switch (number_) {
      case Number::kWhole:
        if (is_digit(c)) continue;
        [[fallthrough]];
      case Number::kZero:
        if (c != '.' && !exponent) return end_scalar(JsonKind::kNumber), true;
        number_ = exponent ? Number::kExp : Number::kDot;
        continue;
      case Number::kMinus:
        if (!is_digit(c)) return fail(JsonError::Kind::kNumber);
        number_ = c == '0' ? Number::kZero : Number::kWhole;
        continue;
      case Number::kDot:
        if (!is_digit(c)) return fail(JsonError::Kind::kFraction);
        number_ = Number::kFraction;
        continue;
      case Number::kFraction:
        if (is_digit(c)) continue;
        if (!exponent) return end_scalar(JsonKind::kNumber), true;
        number_ = Number::kExp;
        continue;
      case Number::kExp:
        if (c == '+' || c == '-') {
          number_ = Number::kExpSign;
          continue;
        }
        [[fallthrough]];
      case Number::kExpSign:
        if (!is_digit(c)) return fail(JsonError::Kind::kExponent);
        number_ = Number::kExpDigits;
        continue;
      case Number::kExpDigits:
        if (!is_digit(c)) return end_scalar(JsonKind::kNumber), true;
    }
  }
  return false;
}

bool JsonScanner::start_string(bool key) {
  token_begin_ = offset();
  token_open_ = true;
  is_key_ = key;
  saved_ = 0;
  high_end_ = 0;
  ++p_;
  state_ = State::kString;
  return step_string();
}

bool JsonScanner::step_string() {
  while (true) {
    p_ = find_in_string(p_, end_);
    if (p_ == end_) return false;
    if (*p_ == '"') {
      ++p_;
      end_string();
      return true;
    }
    if (*p_ != '\\') return fail(JsonError::Kind::kControl);
    if (end_ - p_ >= 2 && is_short_escape(p_[1])) {
      p_ += 2;
      ++saved_;
      continue;
    }
    ++p_;
    state_ = State::kEscape;
    return true;
  }
}

bool JsonScanner::step_escape() {
  if (p_ == end_) return false;
  if (*p_ == 'u') {
    hex_digits_ = 0;
    hex_value_ = 0;
    state_ = State::kHex;
  } else if (is_short_escape(*p_)) {
    ++saved_;
    state_ = State::kString;
  } else {
    return fail(JsonError::Kind::kEscape);
  }
  ++p_;
  return true;
}

bool JsonScanner::step_hex() {
  for (; hex_digits_ < 4; ++hex_digits_, ++p_) {
    if (p_ == end_) return false;
    const uint32_t digit = hex_digit(*p_);
    if (digit == 16) return fail(JsonError::Kind::kHex);
    hex_value_ = hex_value_ << 4 | digit;
  }
  end_unicode_escape(hex_value_, offset() - 6);
  state_ = State::kString;
  return true;
}

/// Counts what unescape_json makes of the escape [begin, begin + 6).
void JsonScanner::end_unicode_escape(uint32_t code, size_t begin) {
  if (code >= 0xdc00 && code < 0xe000 && high_end_ == begin) {
    saved_ += 5;  // the high half counts as three bytes already; the pair is four
    high_end_ = 0;
    return;
  }
  if (code >= 0xd800 && code < 0xdc00) high_end_ = begin + 6;
  saved_ += code < 0x80 ? 5 : code < 0x800 ? 4 : 3;
}

void JsonScanner::end_string() {
  if (!is_key_) return end_scalar(JsonKind::kString);
  if (tracked()) {
    ++level_[levels_ - 1].count;
    match_key(token_text());
  }
  token_open_ = false;
  held_size_ = 0;
  held_overflow_ = false;
  state_ = State::kColon;
  if (p_ < end_ && *p_ == ':') {  // saves a step
    ++p_;
    state_ = State::kValue;
  }
}

void JsonScanner::end_scalar(JsonKind kind) {
  if (id_ != kNoId) {
    JsonValue value{kind, token_begin_, offset(), 0, 0, token_text()};
    if (kind == JsonKind::kString) value.unescaped = value.end - value.begin - 2 - saved_;
    sink_.value(id_, value);
  }
  token_open_ = false;
  held_size_ = 0;
  held_overflow_ = false;
  after_value();
}

void JsonScanner::match_key(std::string_view key) {
  id_ = kNoId;
  if (key.size() < 2) return;
  key = key.substr(1, key.size() - 2);
  char unescaped[kEscapedKeyMax];
  if (saved_ != 0) {
    if (key.size() > sizeof unescaped) return;
    key = {unescaped, unescape_json(key, unescaped)};
  }
  if (key.empty()) return;
  const uint8_t parent = level_[levels_ - 1].id;
  for (const JsonField* field = schema_.begin(parent); field != schema_.end(parent); ++field) {
    if (field->key == key) {
      id_ = field->id;
      return;
    }
  }
}

/// The token [token_begin_, offset()), or nothing when its beginning is gone.
std::string_view JsonScanner::token_text() {
  if (token_begin_ >= base_) return {data_ + (token_begin_ - base_), offset() - token_begin_};
  if (held_overflow_ || held_size_ + static_cast<size_t>(p_ - data_) > kHeldMax) return {};
  // The beginning was held back; its rest stands at the start of the bytes at hand.
  const auto rest = static_cast<size_t>(p_ - data_);
  if (rest > 0) std::memcpy(held_.data() + held_size_, data_, rest);
  return {held_.data(), held_size_ + rest};
}

/// Keeps the bytes of the open token beyond this call.
void JsonScanner::hold_token() {
  const char* from = token_begin_ >= base_ ? data_ + (token_begin_ - base_) : data_;
  const auto size = static_cast<size_t>(end_ - from);
  held_overflow_ = held_overflow_ || held_size_ + size > kHeldMax;
  if (held_overflow_) return;
  std::memcpy(held_.data() + held_size_, from, size);
  held_size_ = static_cast<uint8_t>(held_size_ + size);
}

bool JsonScanner::fail(JsonError::Kind kind) {
  error_ = {kind, offset(), static_cast<unsigned char>(*p_), literal_, literal_at_};
  state_ = State::kFailed;
  return false;
}

}  // namespace llmd::codec
