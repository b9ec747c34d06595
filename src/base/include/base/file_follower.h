#pragma once

#include "base/result.h"

#include <functional>
#include <string>
#include <utility>

namespace llmd {

/// Follows the content of a file by polling, so that one replaced by rename or through a symbolic
/// link, as a mounted ConfigMap or Secret is, is seen like any other. Threading: one control
/// thread. Cost of a tick: reading the file.
class FileFollower {
 public:
  using Read = std::function<Result<std::string>(const std::string& path)>;
  /// Gets new content, or why there is none: told once, until the file can be read again.
  using Take = std::function<void(Result<std::string>)>;

  /// `current` is the content in use.
  FileFollower(std::string path, std::string current, Read read, Take take)
      : path_(std::move(path)),
        read_(std::move(read)),
        take_(std::move(take)),
        taken_(std::move(current)),
        candidate_(taken_) {}

  /// Counts `content` as taken.
  void assume(std::string content) { taken_ = candidate_ = std::move(content); }

  /// Call every second or so. New content is taken at the second tick that sees it, so that a file
  /// is not taken half-written, and not again until it changes.
  void tick() {
    auto text = read_(path_);
    if (!text) {
      if (std::exchange(readable_, false)) take_(std::move(text));
      return;
    }
    readable_ = true;
    const bool stable = *text == candidate_;
    candidate_ = std::move(*text);
    if (stable && candidate_ != taken_) take_(taken_ = candidate_);
  }

  /// Takes the content at once, changed or not: what SIGHUP asks for.
  void reload() {
    auto text = read_(path_);
    if (text) taken_ = candidate_ = *text;
    take_(std::move(text));
  }

 private:
  const std::string path_;
  const Read read_;
  const Take take_;
  std::string taken_;
  std::string candidate_;  // new content that the last tick saw
  bool readable_ = true;
};

}  // namespace llmd
