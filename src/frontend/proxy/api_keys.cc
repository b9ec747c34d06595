#include "frontend/api_keys.h"

#include "base/secret.h"
#include "base/text.h"

#include <fmt/format.h>
#include <openssl/sha.h>

#include <algorithm>

namespace llmd::frontend {
namespace {

constexpr std::string_view kDigestMark = "sha256:";
constexpr std::array<std::string_view, 2> kAttributes = {"fairness-id", "objective"};

/// Cuts the first word off `text`, which has no blanks around it.
std::string_view take_word(std::string_view& text) {
  const size_t end = std::min(text.find_first_of(" \t"), text.size());
  const auto word = text.substr(0, end);
  text = trim(text.substr(end));
  return word;
}

std::string_view view(const std::array<uint8_t, 32>& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

/// Reads `name=value` into `client`.
Status read_attribute(std::string_view word, ApiClient& client) {
  const size_t equals = std::min(word.find('='), word.size());
  const auto name = word.substr(0, equals);
  if (equals == word.size() || std::ranges::find(kAttributes, name) == kAttributes.end())
    return fail(Code::kBadRequest, "after the key only fairness-id=… and objective=… may stand");
  const auto value = word.substr(equals + 1);
  const bool visible =
      std::ranges::all_of(value, [](unsigned char c) { return c > ' ' && c < 0x7f; });
  if (value.empty() || value.size() > ApiKeys::kValueBytesMax || !visible)
    return fail(Code::kBadRequest, fmt::format("{} must have 1 to {} visible characters", name,
                                               ApiKeys::kValueBytesMax));
  std::string& field = name == kAttributes[0] ? client.fairness_id : client.objective;
  if (!field.empty()) return fail(Code::kBadRequest, fmt::format("{} is given twice", name));
  field = value;
  return {};
}

}  // namespace

size_t ApiKeys::DigestHash::operator()(const Digest& digest) const {
  return keyed_hash(view(digest));
}

bool ApiKeys::DigestEqual::operator()(const Digest& a, const Digest& b) const {
  return same_secret(view(a), view(b));
}

ApiKeys::Digest ApiKeys::digest_of(std::string_view key) {
  Digest digest;
  SHA256(reinterpret_cast<const uint8_t*>(key.data()), key.size(), digest.data());
  return digest;
}

bool ApiKeys::read_digest(std::string_view hex, Digest& digest) {
  if (hex.size() != 2 * digest.size()) return false;
  const auto nibble = [](char c) {
    return c >= '0' && c <= '9'                 ? c - '0'
           : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
                                                : -1;
  };
  for (size_t i = 0; i < digest.size(); ++i) {
    const int high = nibble(hex[2 * i]);
    const int low = nibble(hex[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    digest[i] = static_cast<uint8_t>(high << 4 | low);
  }
  return true;
}

Result<ApiKeys> ApiKeys::parse(std::string_view text) {
  ApiKeys keys;
  size_t number = 0;
  const auto bad = [&](std::string_view what) {
    return fail(Code::kBadRequest, fmt::format("line {}: {}", number, what));
  };
  while (!text.empty()) {
    ++number;
    const size_t end = std::min(text.find('\n'), text.size());
    auto line = trim(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || line.front() == '#') continue;
    const auto key = take_word(line);
    Digest digest;
    if (key.starts_with(kDigestMark)) {
      if (!read_digest(key.substr(kDigestMark.size()), digest))
        return bad("sha256: must be followed by 64 hex digits");
    } else if (is_secret(key)) {
      digest = digest_of(key);
    } else {
      return bad(fmt::format("a key must have {} to {} visible characters", kSecretBytesMin,
                             kSecretBytesMax));
    }
    ApiClient client;
    while (!line.empty())
      if (auto read = read_attribute(take_word(line), client); !read)
        return bad(read.error().message);
    if (!keys.clients_.emplace(digest, std::move(client)).second)
      return bad("this key stands on an earlier line, too");
    if (keys.size() > kKeysMax) return bad(fmt::format("more than {} keys", kKeysMax));
  }
  if (keys.size() == 0) return fail(Code::kBadRequest, "no keys: nobody could be served");
  return keys;
}

const ApiClient* ApiKeys::find(std::string_view key) const {
  if (!is_secret(key)) return nullptr;
  const auto at = clients_.find(digest_of(key));
  return at == clients_.end() ? nullptr : &at->second;
}

}  // namespace llmd::frontend
