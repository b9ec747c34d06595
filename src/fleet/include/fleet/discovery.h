#pragma once

#include "base/clock.h"
#include "base/mutex.h"
#include "base/result.h"
#include "fleet/fleet.h"
#include "plugin/plugin.h"

#include <condition_variable>
#include <memory>
#include <thread>

namespace llmd::fleet {

/// Finds model servers and keeps a fleet's membership up to date.
/// Threading: one control thread makes all calls; they may block (files, name look-ups), so never a
/// loop's thread. Time comes from an injected clock, so tests drive tick() by hand.
class Discovery {
 public:
  virtual ~Discovery() = default;

  /// Fills the fleet for the first time. An error ends the process at start-up.
  /// Requires: called once; `fleet` outlives this object.
  virtual Status start(Fleet& fleet) = 0;

  /// Looks for changes and applies them. Called about every tick_interval() after start().
  virtual void tick() = 0;

  virtual Nanos tick_interval() const { return std::chrono::milliseconds(100); }
};

/// The thread that drives a discovery. Threading: construct, start and destroy on one thread.
class DiscoveryThread {
 public:
  explicit DiscoveryThread(std::unique_ptr<Discovery> discovery);
  /// Waits for a tick under way.
  ~DiscoveryThread();

  /// Runs the discovery's start() on the calling thread, so the fleet is filled when this returns,
  /// then ticks on a thread.
  Status start(Fleet& fleet);

 private:
  void run();

  const std::unique_ptr<Discovery> discovery_;
  Mutex mutex_;
  std::condition_variable_any wake_;
  bool stopping_ LLMD_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

/// A configured way of discovery: the plugin interface behind `dataLayer.discovery`.
class DiscoveryPlugin : public virtual plugin::Plugin {
 public:
  virtual std::unique_ptr<Discovery> make_discovery() const = 0;
};

}  // namespace llmd::fleet
