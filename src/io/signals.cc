#include "io/signals.h"

#include "base/check.h"

#include <csignal>
#include <pthread.h>
#include <sys/signalfd.h>
#include <unistd.h>

namespace llmd::io {

Signals::Signals(Loop& loop, std::initializer_list<int> signals, std::function<void(int)> on_signal)
    : loop_(loop), on_signal_(std::move(on_signal)) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals) sigaddset(&set, signal);
  CHECK(pthread_sigmask(SIG_BLOCK, &set, nullptr) == 0);
  fd_ = Fd(signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC));
  CHECK(fd_);
  loop_.watch(fd_.get(), *this);
}

Signals::~Signals() {
  loop_.forget(*this);
}

void Signals::on_ready(uint32_t) {
  signalfd_siginfo info;
  while (read(fd_.get(), &info, sizeof info) == sizeof info)
    on_signal_(static_cast<int>(info.ssi_signo));
}

}  // namespace llmd::io
