#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

/// RESP2, the protocol of Redis and Valkey: commands go out as arrays of strings, each is answered
/// by one reply, in order.
namespace llmd::redis {

/// Appends a command, such as {"HSET", key, field, value}. Anything may be in its words.
void append_command(std::string& out, std::initializer_list<std::string_view> words);
/// The same in parts: the number of words, then each of them.
void append_command_size(std::string& out, size_t words);
void append_word(std::string& out, std::string_view word);

/// Finds the end of a reply in bytes that come in parts. Every byte is looked at once, whatever the
/// parts; lists in lists cost no stack.
class ReplyScanner {
 public:
  static constexpr size_t kMore = SIZE_MAX;
  static constexpr size_t kBad = SIZE_MAX - 1;

  /// A reply of more bytes is bad.
  explicit ReplyScanner(size_t bytes_max) : bytes_max_(bytes_max) {}

  /// `bytes` begin where the reply does, and with what was there at the last call. Returns the
  /// reply's size; kMore: it goes on; kBad: this is no reply, or a too large one.
  size_t scan(std::string_view bytes);
  /// For the next reply.
  void reset() { at_ = line_at_ = 0, left_ = 1; }

 private:
  /// Goes on by one value, or by the head of a list. False: there is not enough of it.
  bool step(std::string_view bytes);
  bool refuse() {
    left_ = SIZE_MAX;
    return false;
  }

  size_t bytes_max_;
  size_t at_ = 0;       // where the next value begins
  size_t line_at_ = 0;  // how far its line has been looked at
  size_t left_ = 1;     // values still to come; SIZE_MAX: bad
};

/// A whole reply. Views into the bytes that it was made from. Cost: none but that of its first
/// line.
class Reply {
 public:
  enum class Type : uint8_t { kStatus, kError, kInteger, kText, kList, kNone };

  /// Requires: `bytes` begin with a reply that a ReplyScanner has found.
  explicit Reply(std::string_view bytes);

  Type type() const { return type_; }
  bool failed() const { return type_ == Type::kError; }
  /// Of a status, an error or a text; the digits of an integer.
  std::string_view text() const { return text_; }
  /// Of a list: how many values it has.
  size_t size() const { return size_; }
  /// Calls use(Reply) for each value of a list, in order; for none of anything else.
  template <class Use>
  void each(Use use) const {
    std::string_view rest = rest_;
    for (size_t i = 0; i < size_; ++i) {
      const Reply value(rest);
      use(value);
      rest.remove_prefix(ReplyScanner(SIZE_MAX - 2).scan(rest));
    }
  }

 private:
  Type type_ = Type::kNone;
  std::string_view text_;
  std::string_view rest_;  // of a list: its values and what follows
  size_t size_ = 0;
};

}  // namespace llmd::redis
