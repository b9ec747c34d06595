#include "table_memory.h"

#include "base/check.h"

#include <cstdint>
#include <cstdlib>
#include <sys/mman.h>

namespace llmd::kv {
namespace {

constexpr size_t kLineBytes = 64;

/// Straight from the kernel: the heap would give pages again that are no huge ones.
void* map_huge(size_t bytes) {
  void* const got = mmap(nullptr, bytes + kHugePageBytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  CHECK(got != MAP_FAILED);
  char* const from = static_cast<char*>(got);
  const size_t before = -reinterpret_cast<uintptr_t>(from) % kHugePageBytes;
  if (before > 0) munmap(from, before);
  munmap(from + before + bytes, kHugePageBytes - before);
  madvise(from + before, bytes, MADV_HUGEPAGE);  // a wish: failure costs speed only
  return from + before;
}

size_t whole_pages(size_t bytes) {
  constexpr size_t kPageBytes = 4096;
  return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
}

}  // namespace

void* allocate_table(size_t bytes) {
  if (bytes >= kHugePageBytes) return map_huge(whole_pages(bytes));
  void* at = nullptr;
  CHECK(posix_memalign(&at, kLineBytes, bytes) == 0);
  return at;
}

void FreeTable::operator()(void* memory) const {
  if (bytes >= kHugePageBytes)
    munmap(memory, whole_pages(bytes));
  else
    std::free(memory);
}

}  // namespace llmd::kv
