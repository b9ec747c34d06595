#pragma once

#include <atomic>
#include <cstdint>

namespace llmd {

[[noreturn]] void check_failed(const char* expression, const char* file, int line);

/// Faults that must not stop a production process but must be seen: each is counted and logged once
/// a second at most.
void soft_check_failed(const char* expression, const char* file, int line);

/// How many soft checks have failed in this process; exported as a metric.
uint64_t soft_check_failures();

}  // namespace llmd

/// A broken invariant ends the process, in release builds too.
#define CHECK(condition)                                                                    \
  (__builtin_expect(!(condition), 0) ? ::llmd::check_failed(#condition, __FILE__, __LINE__) \
                                     : (void)0)

/// Evaluates to the condition; counts and logs when it is false. Use where going on is safe.
#define SOFT_CHECK(condition) \
  ((condition) ? true : (::llmd::soft_check_failed(#condition, __FILE__, __LINE__), false))
