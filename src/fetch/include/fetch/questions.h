#pragma once

#include "base/clock.h"
#include "base/mutex.h"
#include "schedule/request_context.h"

#include <cstdint>
#include <map>
#include <optional>
#include <utility>

namespace llmd::fetch {

/// The questions that requests have left with a service on another loop. Each has a ticket; its
/// answer wakes the request, which takes it. An answer that nobody comes for is forgotten after
/// kKept, when its room is needed. Threading: any.
template <class Answer>
class Questions {
 public:
  static constexpr Nanos kKept = std::chrono::seconds(1);

  explicit Questions(size_t most) : most_(most) {}

  /// A ticket, which is not 0; nothing when too many wait.
  std::optional<uint64_t> ask(schedule::Signal resume, TimePoint now) {
    const MutexLock lock(mutex_);
    if (asked_.size() >= most_)
      std::erase_if(asked_, [&](const auto& one) {
        return one.second.answer && one.second.answered + kKept < now;
      });
    if (asked_.size() >= most_) return std::nullopt;
    asked_[++last_ticket_].resume = std::move(resume);
    return last_ticket_;
  }
  void answer(uint64_t ticket, Answer answer, TimePoint now) {
    schedule::Signal resume;
    {
      const MutexLock lock(mutex_);
      const auto at = asked_.find(ticket);
      if (at == asked_.end()) return;
      at->second.answer = std::move(answer);
      at->second.answered = now;
      resume = at->second.resume;
    }
    resume();
  }
  /// Nothing when there is no answer to it, or no longer.
  std::optional<Answer> take(uint64_t ticket) {
    const MutexLock lock(mutex_);
    const auto at = asked_.find(ticket);
    if (at == asked_.end() || !at->second.answer) return std::nullopt;
    auto answer = std::move(at->second.answer);
    asked_.erase(at);
    return answer;
  }

 private:
  struct Asked {
    schedule::Signal resume;
    std::optional<Answer> answer;
    TimePoint answered{};
  };

  const size_t most_;
  Mutex mutex_;
  std::map<uint64_t, Asked> asked_ LLMD_GUARDED_BY(mutex_);  // by ticket
  uint64_t last_ticket_ LLMD_GUARDED_BY(mutex_) = 0;
};

}  // namespace llmd::fetch
