#pragma once

#include "requests.h"

#include "io/loop.h"
#include "kv_indexer/indexer.h"
#include "render/waiting.h"

#include <functional>
#include <memory>
#include <span>

namespace llmd::kv_indexer {

/// One request: waits for the tokens of its prompts, then for the shared index where there is one;
/// without that one's answer in kSharedTimeout, what this process knows counts. At most one
/// question at a time. Threading: the loop's.
class Scoring {
 public:
  static constexpr Nanos kSharedTimeout = std::chrono::milliseconds(100);
  using Done = std::move_only_function<void(Result<Scores>)>;

  Scoring(io::Loop& loop, const Indexer& indexer) : loop_(loop), indexer_(indexer), timer_(loop) {}

  /// Calls `done` on the loop, at once or later, unless this is destroyed or cancelled before.
  void of(ScoreRequest request, Done done);
  void cancel();

 private:
  void look_up(const Question& question, std::span<const render::RenderedPrompt> prompts);
  bool ask_shared();
  void finish(std::span<const kv_shared::Hit> more);

  io::Loop& loop_;
  const Indexer& indexer_;
  io::Timer timer_;
  render::Waiting waiting_;
  Done done_;
  LookUp look_up_;
  std::shared_ptr<uint64_t> ticket_;  // of the question to the shared index; null: none
};

}  // namespace llmd::kv_indexer
