#include "base/secret.h"

#include "base/file.h"
#include "base/text.h"

#include <fmt/format.h>

#include <algorithm>

namespace llmd {

bool is_secret(std::string_view text) {
  return text.size() >= kSecretBytesMin && text.size() <= kSecretBytesMax &&
         std::ranges::all_of(text, [](unsigned char c) { return c > ' ' && c < 0x7f; });
}

bool same_secret(std::string_view a, std::string_view b) {
  unsigned char difference = a.size() != b.size();
  for (size_t i = 0; i < a.size(); ++i)
    difference |= static_cast<unsigned char>(a[i] ^ (i < b.size() ? b[i] : 0));
  return difference == 0;
}

Result<std::string> read_secret_file(const std::string& path, size_t bytes_max) {
  auto text = read_file(path, bytes_max);
  if (!text) return fail(std::move(text).error().in(fmt::format("'{}'", path)));
  return text;
}

Result<std::string> only_secret(std::string_view text, std::string_view path) {
  const auto secret = trim(text);
  if (!is_secret(secret))
    return fail(Code::kBadRequest, fmt::format("'{}': must hold one secret of {} to {} visible "
                                               "characters",
                                               path, kSecretBytesMin, kSecretBytesMax));
  return std::string(secret);
}

std::string_view bearer_token(std::string_view authorization) {
  constexpr std::string_view kScheme = "bearer ";
  if (!equals_ignore_case(authorization.substr(0, kScheme.size()), kScheme)) return {};
  return trim(authorization.substr(kScheme.size()));
}

}  // namespace llmd
