#pragma once

#include "config/loader.h"
#include "metric/registry.h"

#include <functional>
#include <string>

namespace llmd::config {

/// Follows a configuration file: loads it again when its content changes and hands the result on. A
/// configuration that does not load is logged and counted, and the last good one stays. Polling, so
/// that a file replaced by rename or through a symbolic link, as a mounted ConfigMap is, is seen
/// like any other. Metric: llmd_config_reloads_total{result="success"|"failure"}. Threading: one
/// control thread. Cost of a tick: reading the file.
class Reloader {
 public:
  using Publish = std::function<void(Loaded)>;
  using Read = std::function<Result<std::string>(const std::string& path)>;

  /// `current` is the text that runs now. `environment` is copied; what it refers to outlives the
  /// reloader.
  Reloader(std::string path, std::string current, const Environment& environment, Publish publish,
           Read read = read_document);

  /// Call every second or so. New content is loaded at the second tick that sees it, so that a file
  /// is not read half-written, and not tried again until it changes.
  void tick();

  /// Loads at once, changed or not: what SIGHUP asks for.
  void reload();

 private:
  void load_text(std::string text);
  void failed(const Error& error);

  const std::string path_;
  const Environment environment_;
  const Publish publish_;
  const Read read_;
  const metric::Counter successes_;
  const metric::Counter failures_;
  std::string tried_;      // content of the last load, good or bad
  std::string candidate_;  // new content that the last tick saw
  bool readable_ = true;
};

}  // namespace llmd::config
