#include "codec/go_json.h"

#include "byte_search.h"

#include "base/arena_list.h"
#include "codec/json_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <span>

namespace llmd::codec {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";

struct Member {
  std::string_view key;  // unescaped
  uint32_t value;        // offset
  uint32_t object;       // number of the first object at or behind the value
};

struct Object {
  uint32_t first = 0;  // its members, sorted
  uint32_t count = 0;
  uint32_t end = 0;   // offset behind it
  uint32_t next = 0;  // number of the first object behind it
};

bool is_space(char c) {
  return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/// Length of the valid UTF-8 character at `p`, or 0.
size_t utf8_length(const char* p, const char* end) {
  const auto byte = [&](int i) { return static_cast<unsigned char>(p[i]); };
  const auto tail = [&](int i) { return p + i < end && (byte(i) & 0xc0) == 0x80; };
  const unsigned char c = byte(0);
  if (c < 0x80) return 1;
  if (c >= 0xc2 && c < 0xe0) return tail(1) ? 2 : 0;
  if (c >= 0xe0 && c < 0xf0) {
    if (!tail(1) || !tail(2)) return 0;
    if ((c == 0xe0 && byte(1) < 0xa0) || (c == 0xed && byte(1) >= 0xa0)) return 0;
    return 3;
  }
  if (c >= 0xf0 && c < 0xf5) {
    if (!tail(1) || !tail(2) || !tail(3)) return 0;
    if ((c == 0xf0 && byte(1) < 0x90) || (c == 0xf4 && byte(1) >= 0x90)) return 0;
    return 4;
  }
  return 0;
}

/// ASCII that stands for itself in a JSON string of Go.
constexpr std::array<bool, 256> kPlain = [] {
  std::array<bool, 256> table{};
  for (int c = 0x20; c < 0x80; ++c)
    table[c] = c != '"' && c != '\\' && c != '<' && c != '>' && c != '&';
  return table;
}();
bool is_plain(char c) {
  return kPlain[static_cast<unsigned char>(c)];
}

bool is_ascii(std::string_view text) {
  uint64_t high = 0;
  size_t i = 0;
  for (uint64_t word; i + 8 <= text.size(); i += 8) {
    std::memcpy(&word, text.data() + i, 8);
    high |= word;
  }
  for (; i < text.size(); ++i) high |= static_cast<unsigned char>(text[i]);
  return (high & 0x8080808080808080) == 0;
}

class Writer {
 public:
  Writer(Arena& arena, size_t size) : out_(arena) { out_.reserve(size + size / 8 + 32); }

  void put(char c) { out_.push_back(c); }
  void put(std::string_view text) { out_.append({text.data(), text.size()}); }
  std::string_view view() const { return {out_.view().data(), out_.view().size()}; }

  void string(std::string_view text) {
    put('"');
    const char* p = text.data();
    const char* const end = p + text.size();
    while (p < end) {
      const char* const run = p;
      while (p < end && is_plain(*p)) ++p;
      put({run, static_cast<size_t>(p - run)});
      if (p < end) p = escape(p, end);
    }
    put('"');
  }

  void number(std::string_view text) {
    if (text.size() <= 15 && text != "-0" && text.find_first_of(".eE") == text.npos)
      return put(text);
    double value = 0;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
    if (parsed.ec != std::errc()) return put(text);
    number(value);
  }

 private:
  /// Writes the character at `p`, which is no plain ASCII. Returns what follows it.
  const char* escape(const char* p, const char* end) {
    const auto c = static_cast<unsigned char>(*p);
    if (c >= 0x80) {
      const size_t length = utf8_length(p, end);
      if (length == 0) {
        put(kReplacement);
        return p + 1;
      }
      const std::string_view character(p, length);
      if (character == "\xe2\x80\xa8") {
        put("\\u2028");
      } else if (character == "\xe2\x80\xa9") {
        put("\\u2029");
      } else {
        put(character);
      }
      return p + length;
    }
    switch (c) {
      case '"':
        put("\\\"");
        break;
      case '\\':
        put("\\\\");
        break;
      case '\b':
        put("\\b");
        break;
      case '\f':
        put("\\f");
        break;
      case '\n':
        put("\\n");
        break;
      case '\r':
        put("\\r");
        break;
      case '\t':
        put("\\t");
        break;
      default:
        put("\\u00");
        put("0123456789abcdef"[c >> 4]);
        put("0123456789abcdef"[c & 15]);
    }
    return p + 1;
  }

  /// The shortest digits that read back as `value`, with an exponent below 1e-6 and from 1e21.
  void number(double value) {
    char text[40];
    const auto end =
        std::to_chars(text, text + sizeof text, value, std::chars_format::scientific).ptr;
    std::string_view digits(text, end - text);
    if (digits.starts_with('-')) {
      put('-');
      digits.remove_prefix(1);
    }
    const size_t e = digits.find('e');
    int exponent = 0;
    const char* const sign = digits.data() + e + 1;
    std::from_chars(sign + (*sign == '+'), end, exponent);
    char mantissa[24];
    size_t count = 0;
    for (char c : digits.substr(0, e))
      if (c != '.') mantissa[count++] = c;
    place_point({mantissa, count}, value == 0 ? 0 : exponent);
  }

  void place_point(std::string_view digits, int exponent) {
    const int count = static_cast<int>(digits.size());
    if (exponent < -6 || exponent >= 21) {
      put(digits[0]);
      if (count > 1) put('.'), put(digits.substr(1));
      put(exponent < 0 ? "e-" : "e+");
      char text[8];
      const auto end = std::to_chars(text, text + sizeof text, std::abs(exponent)).ptr;
      put({text, static_cast<size_t>(end - text)});
    } else if (exponent < 0) {
      put("0.");
      for (int i = -1; i > exponent; --i) put('0');
      put(digits);
    } else {
      for (int i = 0; i <= exponent; ++i) put(i < count ? digits[i] : '0');
      if (count > exponent + 1) put('.'), put(digits.substr(exponent + 1));
    }
  }

  ArenaList<char> out_;
};

/// Two passes over the text: the first lists and sorts the members of every object, the second
/// writes them in that order.
class Canon {
 public:
  Canon(std::string_view text, Arena& arena)
      : text_(text),
        arena_(arena),
        open_(arena),
        members_(arena),
        objects_(arena),
        writer_(arena, text.size()) {}

  std::string_view run() {
    index(0);
    uint32_t object = 0;
    write(0, object);
    return writer_.view();
  }

 private:
  uint32_t skip_space(uint32_t at) const {
    while (at < text_.size() && is_space(text_[at])) ++at;
    return at;
  }

  /// Behind the string that starts at `at`.
  uint32_t skip_string(uint32_t at) const {
    const char* const end = text_.data() + text_.size();
    const char* p = text_.data() + at + 1;
    while (*(p = find_in_string(p, end)) != '"') p += 2;
    return static_cast<uint32_t>(p - text_.data()) + 1;
  }

  uint32_t skip_scalar(uint32_t at) const {
    if (text_[at] == '"') return skip_string(at);
    while (at < text_.size() && !is_space(text_[at]) && text_[at] != ',' && text_[at] != ']' &&
           text_[at] != '}')
      ++at;
    return at;
  }

  std::string_view string_at(uint32_t begin, uint32_t end) {
    std::string_view text = text_.substr(begin + 1, end - begin - 2);
    if (text.find('\\') != text.npos) {
      char* const out = static_cast<char*>(arena_.allocate(text.size(), 1));
      text = {out, unescape_json(text, out)};
    }
    return valid_utf8(text);
  }

  /// `text` with U+FFFD for every byte that is no UTF-8, as Go's decoder does; keys are compared in
  /// this form.
  std::string_view valid_utf8(std::string_view text) {
    if (is_ascii(text)) return text;
    const char* p = text.data();
    const char* const end = p + text.size();
    size_t length = 0;
    while (p < end && (length = utf8_length(p, end)) > 0) p += length;
    if (p == end) return text;
    ArenaList<char> out(arena_);
    out.reserve(text.size() + 16);
    for (p = text.data(); p < end; p += std::max<size_t>(length, 1)) {
      length = utf8_length(p, end);
      const std::string_view c = length > 0 ? std::string_view(p, length) : kReplacement;
      out.append({c.data(), c.size()});
    }
    return {out.view().data(), out.size()};
  }

  /// Indexes the value at `at`; returns the offset behind it. The depth of recursion is the
  /// scanner's nesting limit.
  uint32_t index(uint32_t at) {
    at = skip_space(at);
    if (text_[at] == '{') return index_object(at);
    if (text_[at] != '[') return skip_scalar(at);
    at = skip_space(at + 1);
    if (text_[at] == ']') return at + 1;
    while (true) {
      at = skip_space(index(at));
      if (text_[at++] == ']') return at;
    }
  }

  uint32_t index_object(uint32_t at) {
    const auto number = static_cast<uint32_t>(objects_.size());
    objects_.push_back({});
    const size_t mine = open_.size();
    at = skip_space(at + 1);
    while (text_[at] != '}') {
      const uint32_t key_end = skip_string(at);
      const std::string_view key = string_at(at, key_end);
      at = skip_space(skip_space(key_end) + 1);
      open_.push_back({key, at, static_cast<uint32_t>(objects_.size())});
      at = skip_space(index(at));
      if (text_[at] == ',') at = skip_space(at + 1);
    }
    const uint32_t first = static_cast<uint32_t>(members_.size());
    close_object(open_.view().subspan(mine));
    open_.resize(mine);
    objects_[number] = {first, static_cast<uint32_t>(members_.size()) - first, at + 1,
                        static_cast<uint32_t>(objects_.size())};
    return at + 1;
  }

  void close_object(std::span<Member> members) {
    std::sort(members.begin(), members.end(), [](const Member& a, const Member& b) {
      const int order = a.key.compare(b.key);
      return order != 0 ? order < 0 : a.value < b.value;
    });
    for (size_t i = 0; i < members.size(); ++i)
      if (i + 1 == members.size() || members[i].key != members[i + 1].key)
        members_.push_back(members[i]);
  }

  /// Writes the value at `at`; `object` is the number of the first object at or behind it and moves
  /// on. Returns the offset behind the value.
  uint32_t write(uint32_t at, uint32_t& object) {
    at = skip_space(at);
    const char c = text_[at];
    if (c == '{') return write_object(object);
    if (c != '[') {
      const uint32_t end = skip_scalar(at);
      const std::string_view scalar = text_.substr(at, end - at);
      if (c == '"') {
        writer_.string(string_at(at, end));
      } else if (c == '-' || (c >= '0' && c <= '9')) {
        writer_.number(scalar);
      } else {
        writer_.put(scalar);
      }
      return end;
    }
    writer_.put('[');
    at = skip_space(at + 1);
    while (text_[at] != ']') {
      at = skip_space(write(at, object));
      if (text_[at] == ',') {
        writer_.put(',');
        ++at;
      }
    }
    writer_.put(']');
    return at + 1;
  }

  uint32_t write_object(uint32_t& object) {
    const Object mine = objects_[object];
    writer_.put('{');
    for (uint32_t i = 0; i < mine.count; ++i) {
      const Member& member = members_[mine.first + i];
      if (i > 0) writer_.put(',');
      writer_.string(member.key);
      writer_.put(':');
      uint32_t inner = member.object;
      write(member.value, inner);
    }
    writer_.put('}');
    object = mine.next;
    return mine.end;
  }

  std::string_view text_;
  Arena& arena_;
  ArenaList<Member> open_;     // of the objects that are open
  ArenaList<Member> members_;  // of the objects that are closed
  ArenaList<Object> objects_;  // in the order of their opening braces
  Writer writer_;
};

}  // namespace

std::string_view go_json(std::string_view json, Arena& arena) {
  return Canon(json, arena).run();
}

std::string_view go_raw_json(std::string_view json, Arena& arena) {
  ArenaList<char> out(arena);
  const auto put = [&out](std::string_view text) { out.append({text.data(), text.size()}); };
  bool quoted = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (!quoted) {
      if (c == ' ' || c == '\t' || c == '\n' || c == '\r') continue;
      quoted = c == '"';
    } else if (c == '"') {
      quoted = false;
    } else if (c == '\\') {
      out.push_back(c);
      if (++i < json.size()) out.push_back(json[i]);
      continue;
    } else if (c == '<' || c == '>' || c == '&') {
      put(c == '<' ? "\\u003c" : c == '>' ? "\\u003e" : "\\u0026");
      continue;
    } else if (const auto separator = json.substr(i, 3);
               separator == "\xe2\x80\xa8" || separator == "\xe2\x80\xa9") {
      put(separator.back() == '\xa8' ? "\\u2028" : "\\u2029");
      i += 2;
      continue;
    }
    out.push_back(c);
  }
  return {out.view().data(), out.size()};
}

std::string_view go_json_string(std::string_view text, Arena& arena) {
  Writer writer(arena, text.size());
  writer.string(text);
  return writer.view();
}

}  // namespace llmd::codec
