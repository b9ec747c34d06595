#include "media.h"

#include "request/media_size.h"
#include "request/video.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>

namespace llmd::request {
namespace {

constexpr uint32_t kUnknownImage = 640 * 360 / 1024;
constexpr size_t kHeaderMax = 64 * 1024;

constexpr std::array<int8_t, 256> kBase64 = [] {
  std::array<int8_t, 256> table;
  table.fill(-1);
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (size_t i = 0; i < kDigits.size(); ++i)
    table[static_cast<unsigned char>(kDigits[i])] = static_cast<int8_t>(i);
  return table;
}();

/// Bytes of a base64 text, decoded on demand. A byte that is not there reads as 0 and clears
/// good().
class Base64Bytes {
 public:
  explicit Base64Bytes(std::string_view text) : text_(text) {}

  uint32_t at(size_t index) {
    const size_t group = index / 3 * 4;
    const size_t need = index % 3 + 2;  // digits of the group that carry this byte
    if (index >= kHeaderMax || group + need > text_.size()) return bad();
    uint32_t bits = 0;
    for (size_t i = 0; i < 4; ++i) {
      const int digit = i < need ? kBase64[static_cast<unsigned char>(text_[group + i])] : 0;
      if (digit < 0) return bad();
      bits = bits << 6 | static_cast<uint32_t>(digit);
    }
    return bits >> (16 - 8 * (index % 3)) & 0xff;
  }
  uint32_t big16(size_t i) { return at(i) << 8 | at(i + 1); }
  uint32_t little16(size_t i) { return at(i + 1) << 8 | at(i); }
  uint32_t big32(size_t i) { return big16(i) << 16 | big16(i + 2); }
  bool starts_with(std::string_view magic) {
    for (size_t i = 0; i < magic.size(); ++i)
      if (at(i) != static_cast<unsigned char>(magic[i])) return false;
    return good_;
  }
  bool good() const { return good_; }

 private:
  uint32_t bad() {
    good_ = false;
    return 0;
  }

  std::string_view text_;
  bool good_ = true;
};

/// Walks the segments up to the frame header.
ImageSize jpeg_size(Base64Bytes& bytes) {
  size_t at = 2;
  while (bytes.good()) {
    if (bytes.at(at) != 0xff) return {};
    const uint32_t marker = bytes.at(at + 1);
    if (marker == 0xff) {
      ++at;
      continue;
    }
    const bool frame =
        marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc;
    if (frame) return {bytes.big16(at + 7), bytes.big16(at + 5)};
    if (marker == 0xda || marker == 0xd9 || marker == 0) return {};
    at += 2 + (marker >= 0xd0 && marker <= 0xd7 ? 0 : std::max<uint32_t>(bytes.big16(at + 2), 2));
  }
  return {};
}

ImageSize header_size(Base64Bytes& bytes) {
  if (bytes.starts_with("\x89PNG\r\n\x1a\n")) return {bytes.big32(16), bytes.big32(20)};
  if (bytes.starts_with("GIF87a") || bytes.starts_with("GIF89a"))
    return {bytes.little16(6), bytes.little16(8)};
  if (bytes.starts_with("\xff\xd8")) return jpeg_size(bytes);
  return {};
}

constexpr std::string_view kDataUrl = "data:";

std::optional<ImageSize> base64_image_size(std::string_view base64) {
  Base64Bytes bytes(base64);
  const ImageSize size = header_size(bytes);
  if (!bytes.good() || size.width == 0 || size.height == 0) return std::nullopt;
  return size;
}

}  // namespace

std::optional<ImageSize> image_size(std::string_view content) {
  if (!content.starts_with(kDataUrl)) return base64_image_size(content);
  const size_t comma = content.find(',');
  if (comma == content.npos || !content.substr(0, comma).ends_with(";base64")) return std::nullopt;
  return base64_image_size(content.substr(comma + 1));
}

uint32_t image_tokens(std::string_view url) {
  return url.starts_with(kDataUrl) ? base64_image_tokens(url) : kUnknownImage;
}

uint32_t base64_image_tokens(std::string_view base64) {
  const auto size = image_size(base64);
  if (!size) return kUnknownImage;
  const uint64_t tokens = size->width * size->height / 1024;
  return static_cast<uint32_t>(std::clamp<uint64_t>(tokens, 1, kMediaTokensMax));
}

uint32_t audio_tokens(std::string_view data) {
  return static_cast<uint32_t>(std::clamp<uint64_t>((data.size() + 3) / 4, 1, kMediaTokensMax));
}

Piece media_piece(Modality modality, std::string_view content, uint32_t tokens) {
  Piece piece;
  piece.kind = Piece::Kind::kPlaceholder;
  piece.modality = modality;
  piece.text = content;
  piece.token = static_cast<uint32_t>(XXH64(content.data(), content.size(), 0));
  piece.count = tokens;
  return piece;
}

}  // namespace llmd::request
