#include "table_memory.h"

#include "base/check.h"

#include <sys/mman.h>

namespace llmd::kv {
namespace {

constexpr size_t kLineBytes = 64;
/// From here on the kernel is asked for huge pages.
constexpr size_t kHugePageBytes = size_t{2} << 20;

}  // namespace

void* allocate_table(size_t bytes) {
  const bool huge = bytes >= kHugePageBytes;
  void* at = nullptr;
  CHECK(posix_memalign(&at, huge ? kHugePageBytes : kLineBytes, bytes) == 0);
  if (huge) madvise(at, bytes, MADV_HUGEPAGE);  // a wish: failure costs speed only
  return at;
}

}  // namespace llmd::kv
