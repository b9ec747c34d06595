#include "base/file.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

namespace llmd {

Result<std::string> read_file(const std::string& path, size_t bytes_max) {
  const auto unreadable = [] {
    return fail(Code::kNotFound, fmt::format("cannot be read: {}", std::strerror(errno)));
  };
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rbe"),
                                                             &std::fclose);
  if (!file) return unreadable();
  std::string text(bytes_max + 1, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  if (std::ferror(file.get())) return unreadable();
  if (text.size() > bytes_max)
    return fail(Code::kBadRequest, fmt::format("must not be larger than {} bytes", bytes_max));
  return text;
}

}  // namespace llmd
