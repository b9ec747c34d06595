#include "sim/tokenizer.h"

#include <array>

namespace llmd::sim {
namespace {

enum Class : uint8_t { kOther = 0, kWord = 1, kSingle = 2, kSpace = 4 };

constexpr std::array<uint8_t, 256> make_classes() {
  std::array<uint8_t, 256> classes{};
  for (int c = '0'; c <= '9'; ++c) classes[c] = kWord;
  for (int c = 'a'; c <= 'z'; ++c) classes[c] = kWord;
  for (int c = 'A'; c <= 'Z'; ++c) classes[c] = kWord;
  for (const char c : std::string_view("{}:,-.?!;@#$%^&*()+_~/\\><[]=\"'"))
    classes[static_cast<uint8_t>(c)] = kSingle;
  classes['_'] = kWord | kSingle;  // alone at the start of a token, part of a word inside one
  for (const char c : std::string_view("\t\n\f\r ")) classes[static_cast<uint8_t>(c)] = kSpace;
  return classes;
}

constexpr auto kClasses = make_classes();

uint8_t class_of(char c) {
  return kClasses[static_cast<uint8_t>(c)];
}

template <class Take>
void scan(std::string_view text, Take take) {
  size_t i = 0;
  while (i < text.size()) {
    const size_t start = i;
    const uint8_t first = class_of(text[i++]);
    if (first & kSingle) {
    } else if (first & kWord) {
      while (i < text.size() && (class_of(text[i]) & kWord)) ++i;
    } else {
      continue;
    }
    while (i < text.size() && (class_of(text[i]) & kSpace)) ++i;
    take(text.substr(start, i - start));
  }
}

}  // namespace

uint32_t token_id(std::string_view piece) {
  uint32_t hash = 0x811c9dc5;
  for (const char c : piece) hash = (hash ^ static_cast<uint8_t>(c)) * 0x01000193;
  return hash;
}

void tokenize(std::string_view text, std::vector<uint32_t>& ids) {
  scan(text, [&](std::string_view piece) { ids.push_back(token_id(piece)); });
}

void split_tokens(std::string_view text, std::vector<std::string_view>& pieces) {
  scan(text, [&](std::string_view piece) { pieces.push_back(piece); });
}

}  // namespace llmd::sim
