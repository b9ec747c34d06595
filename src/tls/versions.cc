#include "tls/versions.h"

#include "base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace llmd::tls {
namespace {

constexpr std::string_view kVersions[] = {"VersionTLS10", "VersionTLS11", "VersionTLS12",
                                          "VersionTLS13"};

struct Suite {
  std::string_view name;     // Go's
  std::string_view openssl;  // "": always on
  bool standard = false;     // on unless others are chosen
};

constexpr Suite kSuites[] = {
    {"TLS_AES_128_GCM_SHA256", ""},
    {"TLS_AES_256_GCM_SHA384", ""},
    {"TLS_CHACHA20_POLY1305_SHA256", ""},
    {"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "ECDHE-ECDSA-AES128-GCM-SHA256", true},
    {"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256", true},
    {"TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "ECDHE-ECDSA-AES256-GCM-SHA384", true},
    {"TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "ECDHE-RSA-AES256-GCM-SHA384", true},
    {"TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305", true},
    {"TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305", true},
    {"TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305", "ECDHE-ECDSA-CHACHA20-POLY1305"},
    {"TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305", "ECDHE-RSA-CHACHA20-POLY1305"},
    {"TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA", "ECDHE-ECDSA-AES128-SHA"},
    {"TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA", "ECDHE-RSA-AES128-SHA"},
    {"TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA", "ECDHE-ECDSA-AES256-SHA"},
    {"TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA", "ECDHE-RSA-AES256-SHA"},
    {"TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256", "ECDHE-ECDSA-AES128-SHA256"},
    {"TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256", "ECDHE-RSA-AES128-SHA256"},
    {"TLS_RSA_WITH_AES_128_GCM_SHA256", "AES128-GCM-SHA256"},
    {"TLS_RSA_WITH_AES_256_GCM_SHA384", "AES256-GCM-SHA384"},
    {"TLS_RSA_WITH_AES_128_CBC_SHA", "AES128-SHA"},
    {"TLS_RSA_WITH_AES_256_CBC_SHA", "AES256-SHA"},
    {"TLS_RSA_WITH_AES_128_CBC_SHA256", "AES128-SHA256"},
};

}  // namespace

Result<Version> parse_version(std::string_view name) {
  if (name.empty()) return Version::k12;
  const auto* found = std::ranges::find(kVersions, name);
  if (found == std::end(kVersions))
    return fail(Code::kBadRequest,
                fmt::format("'{}' is no TLS version; VersionTLS12 and VersionTLS13 are available{}",
                            name, suggestion(name, kVersions)));
  return *found == "VersionTLS13" ? Version::k13 : Version::k12;
}

Result<std::string> parse_suites(const std::vector<std::string>& names) {
  std::string list;
  const auto add = [&list](std::string_view suite) {
    if (!list.empty() && !suite.empty()) list += ':';
    list += suite;
  };
  for (const auto& name : names) {
    const auto* suite = std::ranges::find(kSuites, name, &Suite::name);
    if (suite == std::end(kSuites)) {
      std::array<std::string_view, std::size(kSuites)> known;
      std::ranges::transform(kSuites, known.begin(), &Suite::name);
      return fail(Code::kBadRequest, fmt::format("'{}' is not an available cipher suite{}", name,
                                                 suggestion(name, known)));
    }
    add(suite->openssl);
  }
  if (list.empty())
    for (const auto& suite : kSuites)
      if (suite.standard) add(suite.openssl);
  return list;
}

}  // namespace llmd::tls
