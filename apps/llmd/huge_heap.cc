#include "huge_heap.h"

#include <mimalloc.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <sys/mman.h>
#include <thread>

namespace llmd {
namespace {

/// What mimalloc takes for a thread at a time, and how it must be aligned.
constexpr size_t kSegment = size_t{32} << 20;
constexpr size_t kSegmentsMax = 64;
/// Threads beside the event loops.
constexpr size_t kOtherThreads = 8;

/// Gives mimalloc address space for the first segments of all threads. Memory comes as it is
/// touched, and what is freed stays with the process: giving it back would take huge pages apart.
void reserve_segments() {
  const size_t threads = std::max(1u, std::thread::hardware_concurrency()) + kOtherThreads;
  const size_t bytes = std::min(threads, kSegmentsMax) * kSegment;
  void* const all = ::mmap(nullptr, bytes + kSegment, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (all == MAP_FAILED) return;
  const auto at = (reinterpret_cast<uintptr_t>(all) + kSegment - 1) / kSegment * kSegment;
  auto* const first = reinterpret_cast<void*>(at);
  if (::madvise(first, bytes, MADV_HUGEPAGE) != 0) return;
  // mimalloc has a thread begin with small pages otherwise.
  mi_option_set(mi_option_eager_commit_delay, 0);
  mi_manage_os_memory(first, bytes, /*is_committed=*/true, /*is_large=*/true, /*is_zero=*/true, -1);
}

}  // namespace

int with_huge_heap(const std::function<int()>& work) {
  reserve_segments();
  // The main thread has its first segment since before main(); a new thread begins with ours.
  // Signals stay with it: the main thread only waits.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int status = 0;
  std::thread([&] {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    status = work();
  }).join();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return status;
}

}  // namespace llmd
