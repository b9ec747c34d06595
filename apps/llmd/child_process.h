#pragma once

#include "base/clock.h"
#include "base/result.h"

#include <string>
#include <sys/types.h>
#include <utility>
#include <vector>

namespace llmd {

/// Another command of this same binary, run as a child whose output goes to a file. The kernel ends
/// it when this process dies; destroying the object ends it in good order.
/// Threading: the thread that made it, which must outlive the child.
class ChildProcess {
 public:
  /// `arguments` begin with the command's name.
  static Result<ChildProcess> start(const std::vector<std::string>& arguments,
                                    const std::string& log_path);

  ChildProcess(ChildProcess&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}
  ChildProcess& operator=(ChildProcess&& other) noexcept {
    if (this != &other) {
      stop();
      pid_ = std::exchange(other.pid_, -1);
    }
    return *this;
  }
  ~ChildProcess() { stop(); }

  /// True until the child has ended by itself.
  bool alive();
  /// SIGTERM, then SIGKILL when it has not ended 5 s later. Idempotent.
  void stop();

 private:
  explicit ChildProcess(pid_t pid) : pid_(pid) {}
  pid_t pid_ = -1;
};

/// The first of `count` consecutive TCP ports that are free on 127.0.0.1 at this moment.
Result<uint16_t> find_free_ports(int count);

}  // namespace llmd
