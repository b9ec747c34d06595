#include "tls/versions.h"

#include <gtest/gtest.h>

namespace llmd::tls {
namespace {

TEST(TlsVersions, AreNamedAsInGo) {
  EXPECT_EQ(parse_version(""), Version::k12);
  EXPECT_EQ(parse_version("VersionTLS10"), Version::k12);
  EXPECT_EQ(parse_version("VersionTLS12"), Version::k12);
  EXPECT_EQ(parse_version("VersionTLS13"), Version::k13);
  EXPECT_EQ(parse_version("VersionTLS14").error().message,
            "'VersionTLS14' is no TLS version; VersionTLS12 and VersionTLS13 are available (did "
            "you mean 'VersionTLS10'?)");
  EXPECT_FALSE(parse_version("1.2"));
}

TEST(TlsSuites, AreEcdheWithAeadUnlessChosen) {
  const auto standard = parse_suites({});
  ASSERT_TRUE(standard);
  EXPECT_EQ(*standard,
            "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:"
            "ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384:"
            "ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305");
  EXPECT_EQ(parse_suites({"TLS_AES_128_GCM_SHA256"}), *standard);
  EXPECT_EQ(parse_suites({"TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "TLS_AES_128_GCM_SHA256",
                          "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA"}),
            "ECDHE-RSA-AES256-GCM-SHA384:ECDHE-RSA-AES128-SHA");
}

TEST(TlsSuites, NameTheNearestOfAnUnknownOne) {
  EXPECT_EQ(parse_suites({"TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA348"}).error().message,
            "'TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA348' is not an available cipher suite (did you "
            "mean 'TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384'?)");
  EXPECT_FALSE(parse_suites({"TLS_RSA_WITH_RC4_128_SHA"}));
}

}  // namespace
}  // namespace llmd::tls
