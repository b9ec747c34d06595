#include "fleet/discovery.h"

#include <pthread.h>

namespace llmd::fleet {

DiscoveryThread::DiscoveryThread(std::unique_ptr<Discovery> discovery)
    : discovery_(std::move(discovery)) {}

DiscoveryThread::~DiscoveryThread() {
  {
    const std::scoped_lock lock(mutex_);
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
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (wake_.wait_for(lock, Discovery::kTickInterval, [this] { return stopping_; })) return;
    lock.unlock();
    discovery_->tick();
    lock.lock();
  }
}

}  // namespace llmd::fleet
