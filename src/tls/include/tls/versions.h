#pragma once

#include "base/result.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// Protocol versions and cipher suites as Go spells them, which is how Kubernetes' tools and the
/// reference do.
namespace llmd::tls {

/// Versions that are served. Older ones have known breaks.
enum class Version : uint8_t { k12, k13 };

/// "VersionTLS10" to "VersionTLS13"; "" and those below 1.2 stand for 1.2. Errors name the text and
/// the nearest name.
Result<Version> parse_version(std::string_view name);

/// OpenSSL's cipher list for suites of TLS 1.2 such as "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256". All
/// ECDHE suites with an AEAD when `names` is empty. Names of TLS 1.3's suites are accepted and
/// change nothing: those are always on. Errors name the suite and the nearest one.
Result<std::string> parse_suites(const std::vector<std::string>& names);

}  // namespace llmd::tls
