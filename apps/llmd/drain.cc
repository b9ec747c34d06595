#include "drain.h"

#include "base/log.h"
#include "base/text.h"

#include <algorithm>
#include <csignal>
#include <unistd.h>

namespace llmd {
namespace {

void end_now(int code) {
  log::stop();
  _exit(code);
}

}  // namespace

Drain::Drain(io::Loop& control, DrainOptions options, std::function<void(Nanos)> finish,
             std::function<void()> end_process)
    : control_(control),
      options_(options),
      finish_(std::move(finish)),
      end_process_(end_process ? std::move(end_process) : [] { end_now(1); }),
      timer_(control) {}

void Drain::on_signal(int signal) {
  const TimePoint now = control_.clock().now();
  if (draining_.exchange(true)) {
    if (now - since_ < kSameStop) return;
    log::warn("stopping at once: second signal");
    return end_process_();
  }
  since_ = now;
  const bool interrupt = signal == SIGINT;
  const Nanos wait = interrupt ? Nanos(0) : options_.drain_timeout;
  const Nanos grace =
      interrupt ? std::min(options_.shutdown_grace, kInterruptGrace) : options_.shutdown_grace;
  log::info("draining", {{"signal", signal},
                         {"serving_for", format_duration(wait)},
                         {"grace", format_duration(grace)}});
  if (wait <= Nanos(0)) return finish(grace);
  timer_.arm(wait, [this, grace] { finish(grace); });
}

void Drain::finish(Nanos grace) {
  log::info("stopping", {{"grace", format_duration(grace)}});
  finisher_ = std::jthread([this, grace] {
    finish_(grace);
    control_.stop();
  });
}

EndWhileStarting::EndWhileStarting()
    : loop_(0, 0), signals_(loop_, {SIGTERM, SIGINT}, [](int signal) {
        log::info("stopped while starting", {{"signal", signal}});
        end_now(0);
      }) {
  thread_ = std::jthread([this] { loop_.run("starting"); });
}

EndWhileStarting::~EndWhileStarting() {
  loop_.stop();
  thread_.join();
}

}  // namespace llmd
