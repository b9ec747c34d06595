#pragma once

#include "base/result.h"

#include <string>
#include <string_view>

/// Keys and tokens. They are read from files, so that they stand in no process list, and appear in
/// no message.
namespace llmd {

inline constexpr size_t kSecretBytesMin = 8;
inline constexpr size_t kSecretBytesMax = 4096;

/// Whether `text` can be a secret: visible ASCII of a length between the two bounds.
bool is_secret(std::string_view text);

/// Whether the two are the same, in time that depends on lengths only.
bool same_secret(std::string_view a, std::string_view b);

/// The content of a file of `bytes_max` at most. Errors name the file.
Result<std::string> read_secret_file(const std::string& path, size_t bytes_max);

/// `text` without the blanks around it, if that is one secret. Errors name the file, never its
/// content.
Result<std::string> only_secret(std::string_view text, std::string_view path);

/// What follows the scheme in a value "Bearer …"; "" for anything else.
std::string_view bearer_token(std::string_view authorization);

}  // namespace llmd
