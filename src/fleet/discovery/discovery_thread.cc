#include "fleet/discovery.h"

#include <pthread.h>

namespace llmd::fleet {

DiscoveryThread::DiscoveryThread(std::unique_ptr<Discovery> discovery)
    : discovery_(std::move(discovery)) {}

DiscoveryThread::~DiscoveryThread() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

Status DiscoveryThread::start(Fleet& fleet) {
  LLMD_TRY(discovery_->start(fleet));
  thread_ = std::thread([this] { run(); });
  return {};
}

void DiscoveryThread::run() {
  ::pthread_setname_np(::pthread_self(), "discovery");
  for (;;) {
    {
      const MutexLock lock(mutex_);
      // A wake-up without cause only makes a tick come early.
      if (!stopping_) wake_.wait_for(mutex_, discovery_->tick_interval());
      if (stopping_) return;
    }
    discovery_->tick();
  }
}

}  // namespace llmd::fleet
