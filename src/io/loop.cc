#include "io/loop.h"

#include "timer_wheel.h"

#include "base/check.h"
#include "io/socket.h"
#include "metric/registry.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>
#include <pthread.h>
#include <span>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utility>

namespace llmd::io {

namespace {

/// epoll_wait with nanoseconds where the kernel has it, else rounded up to milliseconds.
int wait_for_events(int epoll_fd, std::span<epoll_event> batch, Nanos wait) {
  static std::atomic<bool> fine_grained{true};
  const int size = static_cast<int>(batch.size());
  if (fine_grained.load(std::memory_order_relaxed)) {
    const timespec timeout{.tv_sec = static_cast<time_t>(wait.count() / 1'000'000'000),
                           .tv_nsec = static_cast<long>(wait.count() % 1'000'000'000)};
    const int count = epoll_pwait2(epoll_fd, batch.data(), size, &timeout, nullptr);
    if (count >= 0 || errno != ENOSYS) return count;
    fine_grained.store(false, std::memory_order_relaxed);
  }
  return epoll_wait(epoll_fd, batch.data(), size,
                    static_cast<int>((wait.count() + 999'999) / 1'000'000));
}

}  // namespace

/// One batch of epoll reports; forgetting a Pollable wipes its entries that are still to come.
struct Loop::Events {
  std::array<epoll_event, 128> batch;
  int count = 0;
  int next = 0;
};

TurnTask::~TurnTask() {
  if (!task_link_) return;
  *task_link_ = next_task_;
  if (next_task_) next_task_->task_link_ = task_link_;
}

Loop::Loop(size_t index, uint64_t seed, const Clock& clock)
    : index_(index),
      clock_(clock),
      rng_(seed),
      turn_time_(clock.now()),
      wheel_(std::make_unique<Wheel>(turn_time_)),
      events_(std::make_unique<Events>()),
      epoll_fd_(epoll_create1(EPOLL_CLOEXEC)),
      wake_fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  CHECK(epoll_fd_ >= 0 && wake_fd_ >= 0);
  epoll_event event{.events = EPOLLIN | EPOLLET, .data = {.ptr = this}};
  CHECK(epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, wake_fd_, &event) == 0);
}

Loop::~Loop() {
  // Queued work may own objects whose destruction uses the loop, so it goes while everything else
  // still stands.
  posted_.clear();
  close(wake_fd_);
  close(epoll_fd_);
}

void Loop::watch(int fd, Pollable& pollable) {
  epoll_event event{.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
                    .data = {.ptr = &pollable}};
  CHECK(epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, fd, &event) == 0);
}

void Loop::forget(Pollable& pollable) {
  for (int i = events_->next; i < events_->count; ++i)
    if (events_->batch[i].data.ptr == &pollable) events_->batch[i].data.ptr = nullptr;
}

void Loop::unwatch(int fd, Pollable& pollable) {
  forget(pollable);
  CHECK(epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, fd, nullptr) == 0);
}

void Loop::at_turn_end(TurnTask& task) {
  if (task.task_link_) return;
  task.next_task_ = turn_tasks_;
  if (turn_tasks_) turn_tasks_->task_link_ = &task.next_task_;
  task.task_link_ = &turn_tasks_;
  turn_tasks_ = &task;
}

void Loop::run_turn_tasks() {
  // Tasks queued by these run in the next turn, so that none of them can keep the loop from its
  // sockets.
  TurnTask* tasks = std::exchange(turn_tasks_, nullptr);
  if (tasks) tasks->task_link_ = &tasks;
  while (tasks) {
    TurnTask& task = *tasks;
    tasks = task.next_task_;
    if (tasks) tasks->task_link_ = &tasks;
    task.next_task_ = nullptr;
    task.task_link_ = nullptr;
    task.at_turn_end();
  }
}

void Loop::post(std::move_only_function<void()> work) {
  {
    const MutexLock lock(posted_mutex_);
    posted_.push_back(std::move(work));
  }
  wake();
}

void Loop::wake() {
  if (wake_sent_.exchange(true)) return;
  const uint64_t one = 1;
  CHECK(write(wake_fd_, &one, sizeof one) == sizeof one || errno == EAGAIN);
}

void Loop::run_posted() {
  uint64_t count;
  while (read(wake_fd_, &count, sizeof count) < 0 && errno == EINTR) {
  }
  wake_sent_.store(false);
  {
    const MutexLock lock(posted_mutex_);
    running_.swap(posted_);
  }
  for (auto& work : running_) {
    work();
    work = nullptr;
  }
  running_.clear();
}

void Loop::turn(Nanos wait) {
  if (turn_tasks_) wait = Nanos(0);
  if (wait > Nanos(0)) {
    if (const auto next = wheel_->until_next(clock_.now())) wait = std::min(wait, *next);
  }
  Events& events = *events_;
  events.count = std::max(0, wait_for_events(epoll_fd_, events.batch, wait));
  turn_time_ = clock_.now();
  bool posted = false;
  for (events.next = 0; events.next < events.count;) {
    const epoll_event event = events.batch[static_cast<size_t>(events.next++)];
    if (!event.data.ptr) continue;  // forgotten during this turn
    if (event.data.ptr == this) {
      posted = true;
      continue;
    }
    uint32_t ready = 0;
    if (event.events & EPOLLIN) ready |= kReadable;
    if (event.events & EPOLLOUT) ready |= kWritable;
    if (event.events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) ready |= kReadable | kPeerGone;
    static_cast<Pollable*>(event.data.ptr)->on_ready(ready);
  }
  events.count = 0;
  wheel_->advance(turn_time_);
  if (posted) run_posted();
  run_turn_tasks();
}

void Loop::run(const std::string& name) {
  // The first thread's name is the process's, by which operators look for it.
  if (::gettid() != ::getpid()) pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
  metric::set_thread_cell(index_ + 1);
  while (!stopped_.load(std::memory_order_acquire)) turn(std::chrono::seconds(60));
}

void Loop::stop() {
  stopped_.store(true, std::memory_order_release);
  wake();
}

}  // namespace llmd::io
