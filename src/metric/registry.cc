#include "metric/registry.h"

#include "family.h"
#include "page.h"

#include "base/check.h"
#include "base/mutex.h"

#include <algorithm>
#include <list>
#include <map>

namespace llmd::metric {
namespace {

/// Outlives the registry while a token is held.
struct Collectors {
  Mutex mutex;
  std::list<std::function<void()>> functions LLMD_GUARDED_BY(mutex);
};

}  // namespace

struct Registry::State {
  explicit State(size_t loops) : cells(loops + 1) {}

  const size_t cells;
  std::atomic<bool> show_twins{true};
  Mutex mutex;
  std::map<std::string, std::unique_ptr<FamilyImpl>, std::less<>> families LLMD_GUARDED_BY(mutex);
  std::shared_ptr<Collectors> collectors = std::make_shared<Collectors>();
  std::atomic<size_t> page_bytes{4096};  // of the last page, to reserve the next
};

Registry::Registry(size_t loops) : state_(std::make_unique<State>(loops)) {}
Registry::~Registry() = default;

Family& Registry::family(const Definition& definition) {
  const MutexLock lock(state_->mutex);
  auto found = state_->families.find(definition.name);
  if (found == state_->families.end()) {
    auto made = std::make_unique<FamilyImpl>(definition, state_->cells);
    found = state_->families.emplace(definition.name, std::move(made)).first;
  }
  CHECK(found->second->kind() == definition.kind);
  CHECK(std::ranges::equal(found->second->labels(), definition.labels));
  return *found->second;
}

void Registry::show_twins(bool show) {
  state_->show_twins = show;
}

std::shared_ptr<void> Registry::on_collect(std::function<void()> collect) {
  const auto collectors = state_->collectors;
  const MutexLock lock(collectors->mutex);
  collectors->functions.push_front(std::move(collect));
  const auto at = collectors->functions.begin();
  return {nullptr, [collectors, at](void*) {
            const MutexLock relock(collectors->mutex);
            collectors->functions.erase(at);
          }};
}

std::string Registry::render() {
  {
    const MutexLock lock(state_->collectors->mutex);
    for (const auto& collect : state_->collectors->functions) collect();
  }
  std::multimap<std::string_view, std::pair<const FamilyImpl*, const TwinView*>> pages;
  {
    const MutexLock lock(state_->mutex);
    for (const auto& [name, family] : state_->families) {
      pages.emplace(name, std::pair(family.get(), nullptr));
      if (!state_->show_twins) continue;
      for (const auto& twin : family->twins())
        pages.emplace(twin.name, std::pair(family.get(), &twin));
    }
  }
  std::string out;
  out.reserve(state_->page_bytes + state_->page_bytes / 8);
  for (const auto& [name, page] : pages) append_family(out, *page.first, page.second);
  state_->page_bytes = out.size();
  return out;
}

}  // namespace llmd::metric
