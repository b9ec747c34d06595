#pragma once

#include "base/file_follower.h"
#include "config/loader.h"
#include "metric/registry.h"

#include <functional>
#include <string>

namespace llmd::config {

/// Follows a configuration file: loads it again when its content changes and hands the result on. A
/// configuration that does not load is logged and counted, and the last good one stays. Metric:
/// llmd_config_reloads_total{result="success"|"failure"}. Threading: one control thread. Cost of a
/// tick: reading the file.
class Reloader {
 public:
  using Publish = std::function<void(Loaded)>;
  using Read = FileFollower::Read;

  /// `current` is the text that runs now. `environment` is copied; what it refers to outlives the
  /// reloader.
  Reloader(std::string path, std::string current, const Environment& environment, Publish publish,
           Read read = read_document);

  /// Call every second or so; see FileFollower.
  void tick() { file_.tick(); }

  /// Loads at once, changed or not: what SIGHUP asks for.
  void reload() { file_.reload(); }

 private:
  void take(const Result<std::string>& text);
  void failed(const Error& error);

  const std::string path_;
  const Environment environment_;
  const Publish publish_;
  const metric::Counter successes_;
  const metric::Counter failures_;
  FileFollower file_;
};

}  // namespace llmd::config
