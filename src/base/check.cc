#include "base/check.h"

#include "base/clock.h"
#include "base/log.h"

#include <cstdio>
#include <cstdlib>

namespace llmd {
namespace {

std::atomic<uint64_t> soft_failures{0};
std::atomic<int64_t> soft_logged_ns{0};  // when a soft failure was last logged; 0: never

}  // namespace

void check_failed(const char* expression, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: check failed: %s\n", file, line, expression);
  log::flush();
  std::abort();
}

void soft_check_failed(const char* expression, const char* file, int line) {
  const uint64_t count = soft_failures.fetch_add(1, std::memory_order_relaxed) + 1;
  const int64_t now = real_clock().now().time_since_epoch().count();
  int64_t last = soft_logged_ns.load(std::memory_order_relaxed);
  if (last != 0 && now - last < 1'000'000'000) return;
  if (!soft_logged_ns.compare_exchange_strong(last, now, std::memory_order_relaxed)) return;
  log::error("soft check failed",
             {{"expression", expression}, {"file", file}, {"line", line}, {"count", count}});
}

uint64_t soft_check_failures() {
  return soft_failures.load(std::memory_order_relaxed);
}

}  // namespace llmd
