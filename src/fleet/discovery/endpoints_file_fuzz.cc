#include "base/check.h"
#include "fleet/address.h"
#include "fleet/endpoints_file.h"

#include <cstdint>

/// Whatever the file holds: no crash, and every endpoint that is let through can be used.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace llmd;
  const auto file =
      fleet::parse_endpoints_file({reinterpret_cast<const char*>(data), size}, "fuzz");
  if (!file) return 0;
  for (const auto& spec : file->endpoints)
    CHECK(!spec.name.empty() && !spec.ns.empty() && fleet::is_ipv4(spec.address) && spec.port != 0);
  for (const auto& entry : file->bad) CHECK(!entry.error.empty());
  return 0;
}
