#pragma once

#include "io/loop.h"
#include "metric/registry.h"
#include "tls/context.h"

#include <list>
#include <memory>
#include <string>

namespace llmd::tls {

/// Loads contexts again when the directories of their files change: after kSettle without further
/// changes, kSettleMax at most, so that a certificate and its key, written one after the other or
/// swapped by a link as Kubernetes does, are read as a pair. What cannot be used is logged and
/// counted, and the old stays in use. Every kRecheck the files are looked at anyway, for file
/// systems that send no notice. Metric: llmd_tls_reloads_total{use,result}. Threading: the loop's
/// thread; construct and destroy there too, or while the loop does not run.
class Reloader {
 public:
  static constexpr Nanos kSettle = std::chrono::milliseconds(250);
  static constexpr Nanos kSettleMax = std::chrono::seconds(2);
  static constexpr Nanos kRecheck = std::chrono::seconds(30);

  Reloader(io::Loop& loop, metric::Registry& metrics);
  ~Reloader();

  /// Keeps `context` up to date; with `watch`, by itself. `use` is its name in logs and metrics.
  void add(std::shared_ptr<Context> context, std::string use, bool watch);
  /// Reads all files at once: what SIGHUP asks for.
  void reload();

 private:
  class Entry;
  io::Loop& loop_;
  metric::Registry& metrics_;
  std::list<Entry> entries_;
};

}  // namespace llmd::tls
