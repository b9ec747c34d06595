#pragma once

#include "base/file_follower.h"
#include "base/result.h"
#include "metric/registry.h"
#include "request/objects.h"

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace llmd::config {

inline constexpr size_t kObjectsFileBytesMax = 1 << 20;
inline constexpr size_t kObjectsFilesMax = 1000;

struct ObjectsRead {
  std::vector<request::Objective> objectives;
  std::vector<request::ModelRewrite> rewrites;
  std::vector<std::string> warnings;
};

/// Reads YAML or JSON documents, separated by lines of `---`, each an InferenceObjective or an
/// InferenceModelRewrite as a cluster holds them, and adds what they say to `out`. Objects of
/// another pool than `pool` are left out with a warning. Errors name file, line, field and the
/// nearest valid name.
Status parse_objects(std::string_view text, std::string_view file, std::string_view pool,
                     ObjectsRead& out);

/// All such files of a directory (*.yaml, *.yml, *.json).
Result<ObjectsRead> read_objects(const std::string& directory, std::string_view pool);

/// Follows a directory of such files (*.yaml, *.yml, *.json): reads all of them again when one
/// changes and hands the result on. A set that does not load is logged and counted, and the last
/// good one stays. Metric: llmd_objects_reloads_total{result="success"|"failure"}. Threading: one
/// control thread. Cost of a tick: reading the files.
class ObjectsDirectory {
 public:
  using Publish = std::function<void(request::ObjectsPtr)>;

  ObjectsDirectory(std::string path, std::string pool, metric::Registry& metrics, Publish publish);

  /// Loads and publishes, or says why not. Call once, first.
  Status start();
  /// Call every second or so; see FileFollower.
  void tick() { files_.tick(); }

 private:
  Status load(std::string_view files);
  void failed(const Error& error);

  const std::string path_;
  const std::string pool_;
  const Publish publish_;
  const metric::Counter successes_, failures_;
  FileFollower files_;
};

}  // namespace llmd::config
