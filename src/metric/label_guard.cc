#include "base/keyed_hash.h"
#include "base/mutex.h"
#include "metric/registry.h"

#include <string>
#include <unordered_set>

namespace llmd::metric {
namespace {

using TextSet = std::unordered_set<std::string, KeyedHash, std::equal_to<>>;

}  // namespace

struct LabelGuard::State {
  explicit State(size_t n) : limit(n) {}

  const size_t limit;
  SharedMutex mutex;
  TextSet seen LLMD_GUARDED_BY(mutex);
  TextSet pinned LLMD_GUARDED_BY(mutex);

  bool knows(std::string_view value) const LLMD_REQUIRES_SHARED(mutex) {
    return seen.contains(value) || pinned.contains(value);
  }
};

LabelGuard::LabelGuard(size_t limit) : state_(std::make_unique<State>(limit)) {}
LabelGuard::~LabelGuard() = default;

std::string_view LabelGuard::admit(std::string_view value) {
  if (value.empty()) return value;
  {
    const ReaderLock lock(state_->mutex);
    if (state_->knows(value)) return value;
    if (state_->seen.size() >= state_->limit) return "other";
  }
  const WriterLock lock(state_->mutex);
  if (state_->knows(value)) return value;
  if (state_->seen.size() >= state_->limit) return "other";
  state_->seen.emplace(value);
  return value;
}

void LabelGuard::pin(std::string_view value) {
  const WriterLock lock(state_->mutex);
  state_->pinned.emplace(value);
}

}  // namespace llmd::metric
