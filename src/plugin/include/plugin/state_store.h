#pragma once

#include "base/mutex.h"

#include <memory>
#include <string>
#include <string_view>
#include <typeindex>
#include <unordered_map>
#include <utility>

namespace llmd::plugin {

/// Holds what outlives a configuration: indexes, ledgers, rotation stamps, queues; keyed by plugin
/// name and C++ type, so a reloaded plugin of the same name goes on with its state. Threading: any;
/// used at load time only.
class StateStore {
 public:
  /// The state of plugin `name`, made by `make()` when there is none yet.
  template <class T, class Make>
  std::shared_ptr<T> get(std::string_view name, Make make) {
    const MutexLock lock(mutex_);
    auto& slot = states_[{std::string(name), std::type_index(typeid(T))}];
    if (!slot) slot = std::shared_ptr<T>(make());
    return std::static_pointer_cast<T>(slot);
  }

 private:
  struct Hash {
    size_t operator()(const std::pair<std::string, std::type_index>& k) const {
      return std::hash<std::string>()(k.first) ^ k.second.hash_code();
    }
  };
  Mutex mutex_;
  std::unordered_map<std::pair<std::string, std::type_index>, std::shared_ptr<void>, Hash> states_
      LLMD_GUARDED_BY(mutex_);
};

}  // namespace llmd::plugin
