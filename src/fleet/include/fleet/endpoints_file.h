#pragma once

#include "base/result.h"
#include "fleet/endpoint.h"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace llmd::fleet {

inline constexpr size_t kEndpointsFileBytesMax = 1 << 20;

/// The contents of an endpoints file (spec 08 §6.1): entries that can be used, entries that cannot,
/// and remarks.
struct EndpointsFile {
  struct BadEntry {
    std::string id;  // "namespace/name", empty when the name is missing
    std::string error;
  };
  std::vector<EndpointSpec> endpoints;  // top-down; of two with one id the later counts
  std::vector<BadEntry> bad;
  std::vector<std::string> warnings;  // unknown keys, which are ignored
};

/// Reads YAML or JSON of kEndpointsFileBytesMax at most: a map with the list `endpoints`, whose
/// entries have `name`, `namespace`, `address` (IPv4), `port` (a string), `labels` and, beyond the
/// reference, `scheme` and `serverName` (for TLS). Wrong syntax
/// and wrong types, a port that is no string among them, fail the whole file: a file that cannot be
/// decoded is never half-applied. Wrong values make one bad entry. Errors name file and line.
Result<EndpointsFile> parse_endpoints_file(std::string_view text, std::string_view file);

/// The text of such a file. Errors name the path.
Result<std::string> read_endpoints_file(const std::string& path);

}  // namespace llmd::fleet
