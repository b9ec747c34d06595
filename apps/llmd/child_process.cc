#include "child_process.h"

#include "io/socket.h"

#include <fmt/format.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace llmd {
namespace {

/// In the child: never returns.
[[noreturn]] void become(char* const* argv, int log_fd, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(127);  // the parent died before the line above
  const int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
  dup2(null_fd, STDIN_FILENO);
  dup2(log_fd, STDOUT_FILENO);
  dup2(log_fd, STDERR_FILENO);
  execv("/proc/self/exe", argv);
  _exit(127);
}

}  // namespace

Result<ChildProcess> ChildProcess::start(const std::vector<std::string>& arguments,
                                         const std::string& log_path) {
  const io::Fd log(open(log_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!log)
    return fail(Code::kInternal,
                fmt::format("cannot write {}: {}", log_path, std::strerror(errno)));
  std::string program = "llmd";
  std::vector<std::string> copies = arguments;
  std::vector<char*> argv{program.data()};
  for (auto& argument : copies) argv.push_back(argument.data());
  argv.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0)
    return fail(Code::kInternal, fmt::format("cannot start a process: {}", std::strerror(errno)));
  if (pid == 0) become(argv.data(), log.get(), parent);
  return ChildProcess(pid);
}

bool ChildProcess::alive() {
  if (pid_ < 0) return false;
  if (waitpid(pid_, nullptr, WNOHANG) == 0) return true;
  pid_ = -1;
  return false;
}

void ChildProcess::stop() {
  if (pid_ < 0) return;
  kill(pid_, SIGTERM);
  constexpr int kTries = 500;
  for (int i = 0; i < kTries && alive(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  if (pid_ < 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

Result<uint16_t> find_free_ports(int count) {
  // Below the range from which the kernel takes ports for outgoing connections.
  constexpr int kFirst = 18000;
  constexpr int kLast = 32000;
  const int start = kFirst + getpid() % (kLast - kFirst);
  for (int offset = 0; offset < kLast - kFirst; offset += count) {
    const int base = kFirst + (start - kFirst + offset) % (kLast - kFirst - count);
    bool free = true;
    for (int i = 0; i < count && free; ++i) {
      const auto address = io::SocketAddress::parse("127.0.0.1", static_cast<uint16_t>(base + i));
      free = address && io::listen_tcp(*address).has_value();
    }
    if (free) return static_cast<uint16_t>(base);
  }
  return fail(Code::kInternal, "no free TCP ports on 127.0.0.1");
}

}  // namespace llmd
