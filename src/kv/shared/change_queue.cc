#include "change_queue.h"

#include "commands.h"

#include "base/log.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace llmd::kv_shared {
namespace {

/// On their way at a time: enough for a fast server, little to send again.
constexpr size_t kSentBytesMax = size_t{1} << 20;

}  // namespace

void ChangeQueue::push(Change change) {
  const MutexLock lock(mutex_);
  bytes_ += change.bytes();
  waiting_.push_back(std::move(change));
  if (bytes_ > bytes_max_) drop_all();
  if (!std::exchange(woken_, true)) loop_.post([this] { pump(); });
}

void ChangeQueue::drop_all() {
  for (auto& change : waiting_) {
    metrics_.lost.add(static_cast<double>(change.count));
    incomplete_.insert(std::move(change.pod));
  }
  waiting_.clear();
  bytes_ = 0;
  log::warn("changes of the shared KV index are lost: too many wait for its server",
            {{"pods", incomplete_.size()}});
}

bool ChangeQueue::next(Change& change) {
  const MutexLock lock(mutex_);
  woken_ = false;
  if (!incomplete_.empty()) {
    change = {.pod = std::move(incomplete_.extract(incomplete_.begin()).value()), .commands = {}};
    return true;
  }
  if (waiting_.empty()) return false;
  change = std::move(waiting_.front());
  waiting_.pop_front();
  bytes_ -= change.bytes();
  return true;
}

void ChangeQueue::pump() {
  Change change;
  while (client_->up() && !clearing_ && sent_bytes_ < kSentBytesMax && next(change)) {
    sent_bytes_ += change.bytes();
    sent_.push_back(std::move(change));
    const Change& last = sent_.back();
    clearing_ = last.count == 0;
    if (clearing_)
      send_page("0");
    else
      client_->send(last.commands, last.count, *this);
  }
}

void ChangeQueue::send_page(std::string_view cursor) {
  std::string commands;
  const size_t count = append_clear_page(commands, sent_.back().pod, cursor);
  client_->send(commands, count, *this);
}

void ChangeQueue::on_reply(const redis::Reply& reply) {
  const Change& first = sent_.front();
  (reply.failed() ? metrics_.refused : metrics_.written).add();
  if (reply.failed()) log::warn("the shared KV index refuses a change", {{"error", reply.text()}});
  if (first.count == 0) {
    if (!reply.failed() && reply.text() != "0") return send_page(reply.text());
    clearing_ = false;
  } else if (++confirmed_ < first.count) {
    return;
  }
  confirmed_ = 0;
  sent_bytes_ -= first.bytes();
  sent_.pop_front();
  pump();
}

void ChangeQueue::on_down() {
  const MutexLock lock(mutex_);
  bytes_ += sent_bytes_;
  waiting_.insert(waiting_.begin(), std::move_iterator(sent_.begin()),
                  std::move_iterator(sent_.end()));
  sent_.clear();
  sent_bytes_ = confirmed_ = 0;
  clearing_ = false;
}

}  // namespace llmd::kv_shared
