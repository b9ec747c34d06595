#pragma once

#include "base/clock.h"
#include "base/result.h"
#include "fleet/discovery.h"
#include "metric/registry.h"

#include <memory>
#include <string>

namespace llmd::fleet {

/// Endpoints from a YAML or JSON file (spec 08 §6.1), which may be replaced while the process runs.
///
/// At start a file that cannot be read or decoded is an error. Later it is logged and counted, and
/// the old set stays; so does it when the file is deleted or cut short. An entry with a wrong value
/// is logged and counted: it keeps its previous version, or stays out when it has none.
///
/// With `watch` any change in the file's directory starts a wait of kDebounce without further
/// changes, kDebounceMax at most; the file is then read and applied if its content differs. Every
/// kRecheckInterval it is read anyway, for file systems that send no notice.
class FileDiscovery final : public Discovery {
 public:
  static constexpr Nanos kDebounce = std::chrono::milliseconds(200);
  static constexpr Nanos kDebounceMax = std::chrono::seconds(2);
  static constexpr Nanos kRecheckInterval = std::chrono::seconds(30);

  struct Options {
    std::string path;
    bool watch = false;
  };

  /// Requires: `clock` and `metrics` outlive this object.
  FileDiscovery(Options options, const Clock& clock, metric::Registry& metrics);
  ~FileDiscovery() override;

  Status start(Fleet& fleet) override;
  void tick() override;

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

}  // namespace llmd::fleet
