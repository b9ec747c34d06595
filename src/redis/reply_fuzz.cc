#include "redis/reply.h"

#include <cstdint>
#include <cstdlib>
#include <string>

using namespace llmd::redis;

namespace {

/// Bytes of the values in a reply, as its reader sees them; nested lists to some depth.
size_t weight(const Reply& reply, int depth) {
  size_t bytes = reply.text().size();
  if (depth > 0) reply.each([&](const Reply& value) { bytes += 1 + weight(value, depth - 1); });
  return bytes;
}

}  // namespace

/// The first byte sets the size of the parts. Whatever it is, the reply ends where it does when all
/// comes at once, and reading it stays within it.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  constexpr size_t kMax = 4096;
  const size_t step = data[0] + 1;
  const std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const size_t whole = ReplyScanner(kMax).scan(bytes);
  ReplyScanner scanner(kMax);
  size_t parted = ReplyScanner::kMore;
  for (size_t n = step; parted == ReplyScanner::kMore && n < bytes.size(); n += step)
    parted = scanner.scan(std::string_view(bytes).substr(0, n));
  if (parted == ReplyScanner::kMore) parted = scanner.scan(bytes);
  if (parted != whole) std::abort();
  if (whole >= ReplyScanner::kBad) return 0;
  const std::string exact = bytes.substr(0, whole);
  if (weight(Reply(exact), 8) > exact.size()) std::abort();
  return 0;
}
