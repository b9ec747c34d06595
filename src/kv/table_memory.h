#pragma once

#include <cstddef>
#include <memory>

namespace llmd::kv {

constexpr size_t kHugePageBytes = size_t{2} << 20;

struct FreeTable {
  size_t bytes = 0;
  void operator()(void* memory) const;
};
template <class T>
using TableMemory = std::unique_ptr<T[], FreeTable>;

/// Memory of tables, by cache lines. From kHugePageBytes on it is the table's own, in huge pages
/// where they fit in, so that a cold look-up misses no page table; not resident before it is
/// written. Not initialized.
void* allocate_table(size_t bytes);
template <class T>
TableMemory<T> make_table(size_t count) {
  return {static_cast<T*>(allocate_table(count * sizeof(T))), FreeTable{count * sizeof(T)}};
}

}  // namespace llmd::kv
