#pragma once

#include "base/result.h"

#include <string>

namespace llmd::io {

/// Notices that something in a directory was written, created, renamed or removed. It owns the file
/// descriptor of the kernel's watch. Watching the directory rather than a file survives the file's
/// replacement by rename, and sees a mounted ConfigMap change, which swaps a link beside the file.
/// Threading: one thread.
class DirectoryWatch {
 public:
  DirectoryWatch() = default;
  DirectoryWatch(DirectoryWatch&& other) noexcept;
  DirectoryWatch& operator=(DirectoryWatch&& other) noexcept;
  ~DirectoryWatch();

  static Result<DirectoryWatch> open(const std::string& directory);

  /// Whether anything happened since the last call. Does not block.
  bool poll();
  /// For a loop to watch: readable when poll() has something to tell. -1 while not active().
  int fd() const { return fd_; }
  /// False before open() and once the directory itself is gone: open a new one.
  bool active() const { return fd_ >= 0; }

 private:
  explicit DirectoryWatch(int fd) : fd_(fd) {}
  void close();

  int fd_ = -1;
};

}  // namespace llmd::io
