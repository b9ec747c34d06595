#pragma once

#include "fleet/endpoint.h"

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace llmd::fleet {

/// Who is in the fleet. Discovery writes, everybody else reads snapshots.
/// Threading: set() from one control thread; snapshot() from any; listeners run on the control
/// thread.
class Fleet {
 public:
  Fleet();

  /// Makes `specs` the membership. An endpoint whose id, address and port are unchanged keeps slot
  /// and generation (with changed labels it becomes a new Endpoint object of the same identity,
  /// metrics carried over); anything else is removed or added, and an address that returns is a new
  /// generation. Two specs with one id: the later wins.
  void set(std::vector<EndpointSpec> specs);

  SnapshotPtr snapshot() const;

  /// Called after every change with the new snapshot; loops use it to refresh their copy. Returned
  /// token unsubscribes.
  std::shared_ptr<void> subscribe(std::function<void(const SnapshotPtr&)> on_change);
  /// State kept per endpoint. on_added runs at once for every present endpoint, so it must be
  /// idempotent. Returned token unsubscribes.
  std::shared_ptr<void> listen(std::shared_ptr<MembershipListener> listener);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace llmd::fleet
