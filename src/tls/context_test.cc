#include "tls/context.h"

#include "tls/testing/authority.h"

#include <gtest/gtest.h>

namespace llmd::tls {
namespace {

using testing::Authority;
using testing::Directory;

class ContextTest : public ::testing::Test {
 protected:
  ContextTest() : pair_(authority_.issue({"a.test"})) {
    crt_ = directory_.write("tls.crt", pair_.certificate);
    key_ = directory_.write("tls.key", pair_.key);
  }
  std::string server_error(ServerOptions options) {
    const auto made = Context::server(std::move(options));
    return made ? "no error" : made.error().message;
  }
  std::string client_error(ClientOptions options) {
    const auto made = Context::client(std::move(options));
    return made ? "no error" : made.error().message;
  }
  std::string quoted(const std::string& file) { return "'" + directory_.path(file) + "'"; }

  Authority authority_;
  Directory directory_;
  PemPair pair_;
  std::string crt_, key_;
};

TEST_F(ContextTest, NamesTheFileThatCannotBeUsed) {
  const std::string missing = directory_.path("missing");
  const std::string text = directory_.write("text", "no PEM");
  const std::string large = directory_.write("large", std::string((1 << 20) + 1, 'x'));
  const std::string other = directory_.write("other.key", authority_.issue({"b.test"}).key);
  const std::string locked =
      directory_.write("locked.key",
                       "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIGbMFcGCSqGSIb3DQEFDTBK\n"
                       "-----END ENCRYPTED PRIVATE KEY-----\n");
  EXPECT_EQ(server_error({.certificate_file = crt_, .key_file = key_}), "no error");
  EXPECT_EQ(server_error({.certificate_file = missing, .key_file = key_}),
            quoted("missing") + ": cannot be read: No such file or directory");
  EXPECT_EQ(server_error({.certificate_file = text, .key_file = key_}),
            quoted("text") + ": holds no PEM certificate");
  EXPECT_EQ(server_error({.certificate_file = key_, .key_file = key_}),
            quoted("tls.key") + ": holds no PEM certificate");
  EXPECT_EQ(server_error({.certificate_file = crt_, .key_file = crt_}),
            quoted("tls.crt") + ": holds no PEM private key that can be read without passphrase");
  EXPECT_EQ(
      server_error({.certificate_file = crt_, .key_file = locked}),
      quoted("locked.key") + ": holds no PEM private key that can be read without passphrase");
  EXPECT_EQ(server_error({.certificate_file = crt_, .key_file = other}),
            quoted("other.key") + " is not the key of the certificate in " + quoted("tls.crt"));
  EXPECT_EQ(server_error({.certificate_file = large, .key_file = key_}),
            quoted("large") + ": must not be larger than 1048576 bytes");
  EXPECT_EQ(server_error({.certificate_file = crt_, .key_file = key_, .client_ca_file = text}),
            quoted("text") + ": holds no PEM certificate");
  EXPECT_EQ(client_error({.ca_file = missing}),
            quoted("missing") + ": cannot be read: No such file or directory");
  EXPECT_EQ(client_error({.certificate_file = crt_}),
            "a client certificate and its key go together");
  EXPECT_EQ(client_error({}), "no error");
}

TEST_F(ContextTest, LoadsAgainWhatHasChanged) {
  metric::Registry metrics(1);
  const auto made = Context::server({.certificate_file = crt_, .key_file = key_},
                                    Metrics::of(metrics, "serving"));
  ASSERT_TRUE(made);
  Context& context = **made;
  EXPECT_EQ(context.files(), (std::vector{crt_, key_}));
  EXPECT_EQ(context.reload(), false);
  directory_.write("tls.key", "cut");
  EXPECT_FALSE(context.reload());
  EXPECT_EQ(context.reload(), false) << "the same content is not tried again";
  directory_.write("tls.key", pair_.key);
  EXPECT_EQ(context.reload(), true);
  std::filesystem::remove(crt_);
  EXPECT_FALSE(context.reload());
  EXPECT_FALSE(context.reload());
}

TEST_F(ContextTest, ShowsWhenItsCertificateEnds) {
  metric::Registry metrics(1);
  const auto made = Context::server({.pair = authority_.issue({"a"}, std::chrono::hours(5))},
                                    Metrics::of(metrics, "serving"));
  ASSERT_TRUE(made);
  const std::string page = metrics.render();
  const std::string name = "llmd_tls_certificate_expiry_seconds{use=\"serving\"} ";
  const size_t at = page.find(name);
  ASSERT_NE(at, std::string::npos) << page;
  const double expiry = std::stod(page.substr(at + name.size()));
  EXPECT_NEAR(expiry, seconds(real_clock().wall().time_since_epoch()) + 5 * 3600, 60);
}

}  // namespace
}  // namespace llmd::tls
