#pragma once

#include "base/result.h"

#include <string>

namespace llmd {

/// The whole of a small file. Errors (kNotFound, kBadRequest) say what is wrong with it, without
/// its name or text: that it cannot be read and why, or that it is larger than `bytes_max`.
Result<std::string> read_file(const std::string& path, size_t bytes_max);

}  // namespace llmd
