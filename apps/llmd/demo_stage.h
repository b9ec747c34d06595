#pragma once

#include "child_process.h"

#include "base/result.h"
#include "bench/blocking_client.h"

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace llmd {

/// Where an experiment takes place: simulated servers and routers as child processes on free ports,
/// and a folder for what they say and what comes out. Threading: one thread.
class DemoStage {
 public:
  /// `directory` exists after open().
  explicit DemoStage(std::string directory) : directory_(std::move(directory)) {}
  Status open();

  /// `llmd sim` with so many servers; `flags` beside those of the place.
  Status start_engines(int count, std::span<const std::string> flags);
  std::span<const bench::Target> engines() const { return engines_; }

  struct Router {
    ChildProcess process;
    bench::Target target;
  };
  /// `llmd router` in front of all engines, on one loop and without a drain. `name` is its log's.
  Result<Router> start_router(std::string_view name, std::span<const std::string> flags);

  bench::BlockingClient& client() { return client_; }
  std::string path(std::string_view file) const;
  /// Writes a file of the folder, and says so unless it is `quiet`.
  Status write(std::string_view file, std::string_view text, bool quiet = false);

 private:
  Status wait_for(ChildProcess& child, const bench::Target& target, std::string_view path,
                  std::string_view log);

  const std::string directory_;
  bench::BlockingClient client_;
  std::optional<ChildProcess> engines_process_;
  std::vector<bench::Target> engines_;
};

}  // namespace llmd
