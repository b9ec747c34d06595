#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>

namespace llmd::kv {

/// Memory of tables, by cache lines; large pieces in huge pages, so that a cold look-up misses no
/// page table. Not initialized, and not resident before it is written.
void* allocate_table(size_t bytes);

struct FreeTable {
  void operator()(void* p) const { std::free(p); }
};
template <class T>
using TableMemory = std::unique_ptr<T[], FreeTable>;

}  // namespace llmd::kv
