#pragma once

#include <cstdint>

namespace llmd::plugins {

/// How many of a request's images, audio and video an endpoint is believed to have encoded before.
struct MediaMatch {
  static constexpr const char* kKey = "MultiModalEncoderCacheMatchInfoKey";
  int64_t matched = 0;
  int64_t total = 0;  // different ones in the request
};

}  // namespace llmd::plugins
