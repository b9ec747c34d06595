#pragma once

#include <mutex>
#include <shared_mutex>

/// Mutexes whose use clang checks at compile time (-Wthread-safety; the `fuzz` preset compiles with
/// clang). Say which mutex guards a member with LLMD_GUARDED_BY, and which one a function needs
/// with LLMD_REQUIRES. Never on the request path.
#if defined(__clang__)
#define LLMD_THREAD_SAFETY(attribute) __attribute__((attribute))
#else
#define LLMD_THREAD_SAFETY(attribute)
#endif
#define LLMD_GUARDED_BY(mutex) LLMD_THREAD_SAFETY(guarded_by(mutex))
#define LLMD_REQUIRES(mutex) LLMD_THREAD_SAFETY(requires_capability(mutex))
#define LLMD_REQUIRES_SHARED(mutex) LLMD_THREAD_SAFETY(requires_shared_capability(mutex))

namespace llmd {

/// A std::mutex. Conditions wait on it through std::condition_variable_any.
class LLMD_THREAD_SAFETY(capability("mutex")) Mutex {
 public:
  void lock() LLMD_THREAD_SAFETY(acquire_capability()) { mutex_.lock(); }
  bool try_lock() LLMD_THREAD_SAFETY(try_acquire_capability(true)) { return mutex_.try_lock(); }
  void unlock() LLMD_THREAD_SAFETY(release_capability()) { mutex_.unlock(); }
  /// Tells the checker that the caller holds it, where LLMD_REQUIRES cannot be written: in front of
  /// a type that is not complete yet. Checks nothing at run time.
  void assume_held() const LLMD_THREAD_SAFETY(assert_capability(this)) {}

 private:
  std::mutex mutex_;
};

class LLMD_THREAD_SAFETY(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) LLMD_THREAD_SAFETY(acquire_capability(mutex)) : mutex_(mutex) {
    mutex_.lock();
  }
  ~MutexLock() LLMD_THREAD_SAFETY(release_capability()) { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

/// A std::shared_mutex: many readers or one writer.
class LLMD_THREAD_SAFETY(capability("mutex")) SharedMutex {
 public:
  void lock() LLMD_THREAD_SAFETY(acquire_capability()) { mutex_.lock(); }
  void unlock() LLMD_THREAD_SAFETY(release_capability()) { mutex_.unlock(); }
  void lock_shared() LLMD_THREAD_SAFETY(acquire_shared_capability()) { mutex_.lock_shared(); }
  void unlock_shared() LLMD_THREAD_SAFETY(release_shared_capability()) { mutex_.unlock_shared(); }

 private:
  std::shared_mutex mutex_;
};

class LLMD_THREAD_SAFETY(scoped_lockable) ReaderLock {
 public:
  explicit ReaderLock(SharedMutex& mutex) LLMD_THREAD_SAFETY(acquire_shared_capability(mutex))
      : mutex_(mutex) {
    mutex_.lock_shared();
  }
  ~ReaderLock() LLMD_THREAD_SAFETY(release_generic_capability()) { mutex_.unlock_shared(); }
  ReaderLock(const ReaderLock&) = delete;
  ReaderLock& operator=(const ReaderLock&) = delete;

 private:
  SharedMutex& mutex_;
};

class LLMD_THREAD_SAFETY(scoped_lockable) WriterLock {
 public:
  explicit WriterLock(SharedMutex& mutex) LLMD_THREAD_SAFETY(acquire_capability(mutex))
      : mutex_(mutex) {
    mutex_.lock();
  }
  ~WriterLock() LLMD_THREAD_SAFETY(release_capability()) { mutex_.unlock(); }
  WriterLock(const WriterLock&) = delete;
  WriterLock& operator=(const WriterLock&) = delete;

 private:
  SharedMutex& mutex_;
};

}  // namespace llmd
