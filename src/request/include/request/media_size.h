#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace llmd::request {

struct ImageSize {
  uint64_t width = 0;
  uint64_t height = 0;
};

/// Of a PNG, JPEG or GIF in base64, as a data URL or as it stands; nothing for what else it may be.
/// Cost: decodes the header only, 64 KiB at most.
std::optional<ImageSize> image_size(std::string_view content);

}  // namespace llmd::request
