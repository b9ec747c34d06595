#pragma once

#include "request/request_view.h"

#include <cstdint>
#include <string_view>

namespace llmd::request {

/// How many tokens an image is taken to be: width · height / 1024, at least 1, read from the header
/// of a base64 PNG, JPEG or GIF in a data URL; anything else counts as 640 × 360. Cost: decodes the
/// header only, 64 KiB at most.
uint32_t image_tokens(std::string_view url);
/// The same for the base64 text alone, or a data URL.
uint32_t base64_image_tokens(std::string_view base64);

/// The same for audio: a token for four bytes of `data`, at least 1.
uint32_t audio_tokens(std::string_view data);

/// What stands for `content` in a prompt's byte stream.
Piece media_piece(Modality modality, std::string_view content, uint32_t tokens);

}  // namespace llmd::request
