#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

/// An incremental JSON scanner (RFC 8259): reads bytes as they arrive, each once, checks all
/// syntax, and reports the values that a schema asks for. Everything else is skipped at the speed
/// of a search for quotes.
///
///   enum : uint8_t { kRoot, kModel, kPrompt, kPromptItem };
///   constexpr JsonField kFields[] = {{kRoot, "model", kModel}, {kRoot, "prompt", kPrompt},
///                                    {kPrompt, kJsonElement, kPromptItem}};
///   constexpr JsonSchema kSchema(kFields);
///
/// Where RFC 8259 leaves room: a byte order mark is refused; nesting is limited to kJsonDepthMax;
/// invalid UTF-8 and lone surrogate escapes are accepted and passed on (unescape_json turns the
/// latter into U+FFFD); numbers of any size are accepted; of a repeated key every value is
/// reported, in order, so that the last one wins when a sink simply assigns.
namespace llmd::codec {

inline constexpr size_t kJsonDepthMax = 512;
/// Stands for "each element" in the place of a key.
inline constexpr std::string_view kJsonElement{};
/// Containers of interest nested deeper than this are skipped.
inline constexpr size_t kJsonLevelsMax = 12;

enum class JsonKind : uint8_t { kNull, kBool, kNumber, kString, kArray, kObject };

/// A value of interest: the member `key` of the object known as `parent`, or each element of the
/// array known as `parent`. The document is known as 0.
struct JsonField {
  uint8_t parent;
  std::string_view key;
  uint8_t id;
};

/// The values that a parser asks for. Fields of one parent stand together; keys are plain ASCII of
/// at most 64 bytes.
class JsonSchema {
 public:
  static constexpr size_t kIdsMax = 64;

  template <size_t N>
  consteval explicit JsonSchema(const JsonField (&fields)[N]) : fields_(fields) {
    for (size_t i = 0; i < N; ++i) {
      const uint8_t parent = fields[i].parent;
      if (parent >= kIdsMax || fields[i].id >= kIdsMax || fields[i].key.size() > 64)
        throw "out of range";
      if (last_[parent] == 0) {
        first_[parent] = static_cast<uint8_t>(i);
      } else if (last_[parent] != i) {
        throw "fields of one parent must stand together";
      }
      last_[parent] = static_cast<uint8_t>(i + 1);
    }
  }

  const JsonField* begin(uint8_t parent) const { return fields_ + first_[parent]; }
  const JsonField* end(uint8_t parent) const { return fields_ + last_[parent]; }

 private:
  const JsonField* fields_;
  std::array<uint8_t, kIdsMax> first_{};
  std::array<uint8_t, kIdsMax> last_{};
};

/// A complete value. Offsets count from the first byte of the document; quotes and brackets are
/// included.
struct JsonValue {
  JsonKind kind = JsonKind::kNull;
  size_t begin = 0;
  size_t end = 0;
  size_t unescaped = 0;   // strings: bytes after unescaping
  size_t count = 0;       // arrays and objects: elements or members
  std::string_view text;  // [begin, end), valid during the call; empty when the bytes are not at
                          // hand (see feed_chunk)

  /// Strings: the text between the quotes, still escaped.
  std::string_view inside() const {
    return text.size() < 2 ? std::string_view{} : text.substr(1, text.size() - 2);
  }
  bool has_escapes() const { return unescaped != end - begin - 2; }
};

/// Receives values of interest in document order.
class JsonSink {
 public:
  /// An array or object opens at offset `at`; its fields of interest follow, then value() for
  /// itself.
  virtual void open(uint8_t id, JsonKind kind, size_t at) = 0;
  /// A scalar ended, or a container closed.
  virtual void value(uint8_t id, const JsonValue& value) = 0;

 protected:
  ~JsonSink() = default;
};

struct JsonError {
  enum class Kind : uint8_t {
    kNone,
    kEnd,            // the document is cut off
    kValue,          // no value starts like this
    kKey,            // no object key starts like this
    kColon,          // after an object key
    kAfterMember,    // after a member of an object
    kAfterElement,   // after an element of an array
    kAfterDocument,  // after the top-level value
    kControl,        // in a string
    kEscape,         // after a backslash
    kHex,            // in a \u escape
    kLiteral,        // in true, false or null
    kNumber,         // after a minus sign
    kFraction,       // after a decimal point
    kExponent,       // in an exponent
    kDepth,
  };
  Kind kind = Kind::kNone;
  size_t offset = 0;
  unsigned char byte = 0;         // the byte that was refused
  const char* literal = nullptr;  // kLiteral: which one
  uint8_t literal_at = 0;

  /// In the words of Go's encoding/json, which clients of the reference router know.
  std::string text() const;
};

/// Threading: one thread. Cost: about a nanosecond a structural byte; strings at tens of GB/s; no
/// allocation. Trivially destructible; about 500 bytes. `schema` and `sink` outlive the scanner.
class JsonScanner {
 public:
  JsonScanner(const JsonSchema& schema, JsonSink& sink) : schema_(schema), sink_(sink) {}

  /// `body` is the whole document so far: the bytes of earlier calls unchanged, though perhaps
  /// elsewhere in memory. False after an error; further calls do nothing.
  bool feed(std::string_view body);
  /// For documents that are not kept: only the bytes that follow those of earlier calls.
  /// JsonValue::text is then empty for containers and for scalars that were split and are longer
  /// than kHeldMax; split keys longer than that match nothing.
  bool feed_chunk(std::string_view chunk);
  static constexpr size_t kHeldMax = 64;  // bytes
  /// No more bytes follow. True if one whole document was read.
  bool finish();

  const JsonError& error() const { return error_; }
  /// Bytes read.
  size_t position() const { return position_; }

 private:
  static constexpr uint8_t kNoId = 255;

  enum class State : uint8_t {
    kValue,
    kArrayFirst,
    kObjectFirst,
    kKey,
    kColon,
    kAfter,
    kString,
    kEscape,
    kHex,
    kNumber,
    kLiteral,
    kDone,
    kFailed,
  };
  enum class Number : uint8_t {
    kMinus,
    kZero,
    kWhole,
    kDot,
    kFraction,
    kExp,
    kExpSign,
    kExpDigits
  };

  /// A container of interest that is open.
  struct Level {
    size_t begin;
    size_t count;
    uint8_t id;
    uint8_t element;  // id of its elements
  };

  // Steps of the state machine; false: out of bytes, or failed.
  bool step();
  bool step_value();
  bool step_key();
  bool step_after();
  bool step_string();
  bool step_escape();
  bool step_hex();
  bool step_number();
  bool step_literal();

  bool scan();
  bool skip_space();
  bool open(JsonKind kind);
  bool close(JsonKind kind);
  bool start_literal(const char* literal, JsonKind kind);
  bool start_string(bool key);
  void end_unicode_escape(uint32_t code, size_t begin);
  void end_string();
  void end_scalar(JsonKind kind);
  void after_value();
  void match_key(std::string_view key);
  std::string_view token_text();
  void hold_token();
  bool fail(JsonError::Kind kind);

  size_t offset() const { return base_ + static_cast<size_t>(p_ - data_); }
  bool in_object() const { return (objects_[(depth_ - 1) / 64] >> ((depth_ - 1) % 64) & 1) != 0; }
  bool tracked() const { return levels_ == depth_; }

  const JsonSchema& schema_;
  JsonSink& sink_;
  // The bytes at hand, during a call only.
  const char* data_ = nullptr;
  const char* p_ = nullptr;
  const char* end_ = nullptr;
  size_t base_ = 0;  // offset of data_
  size_t position_ = 0;

  State state_ = State::kValue;
  Number number_ = Number::kMinus;
  JsonKind literal_kind_ = JsonKind::kNull;
  bool is_key_ = false;      // the open string is a key
  bool token_open_ = false;  // a string, number or literal is open
  uint8_t id_ = 0;           // of the value that comes next or is open
  uint8_t hex_digits_ = 0;
  uint8_t literal_at_ = 0;
  uint8_t held_size_ = 0;
  bool held_overflow_ = false;
  uint32_t hex_value_ = 0;
  const char* literal_ = nullptr;
  size_t token_begin_ = 0;
  size_t saved_ = 0;     // bytes by which unescaping shortens the open string
  size_t high_end_ = 0;  // end of the last escape that was a high surrogate
  size_t depth_ = 0;
  size_t levels_ = 0;
  std::array<uint64_t, kJsonDepthMax / 64> objects_{};  // one bit a level: is it an object
  std::array<Level, kJsonLevelsMax> level_{};
  std::array<char, kHeldMax> held_{};  // beginning of a token that was split between chunks
  JsonError error_;
};

}  // namespace llmd::codec
