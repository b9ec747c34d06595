#include "tls/certificate.h"

#include "openssl.h"

#include <gtest/gtest.h>

namespace llmd::tls {
namespace {

TEST(Certificate, SelfSignedIsTheReferences) {
  const WallTime now = real_clock().wall();
  const auto made = make_self_signed("Inference Ext", now);
  ASSERT_TRUE(made) << made.error().message;
  const auto certificates = read_certificates(made->certificate);
  ASSERT_TRUE(certificates);
  ASSERT_EQ(certificates->size(), 1u);
  X509* c = certificates->front().get();
  char text[256];
  EXPECT_STREQ(X509_NAME_oneline(X509_get_subject_name(c), text, sizeof text), "/O=Inference Ext");
  EXPECT_EQ(EVP_PKEY_get_base_id(X509_get0_pubkey(c)), EVP_PKEY_RSA);
  EXPECT_EQ(EVP_PKEY_get_bits(X509_get0_pubkey(c)), 4096);
  EXPECT_EQ(X509_get_ext_by_NID(c, NID_subject_alt_name, -1), -1);
  int days = 0, rest = 0;
  ASN1_TIME_diff(&days, &rest, X509_get0_notBefore(c), X509_get0_notAfter(c));
  EXPECT_EQ(days, 3650);
  EXPECT_EQ(X509_cmp_current_time(X509_get0_notBefore(c)), -1);
  EXPECT_TRUE(read_key(made->key));
}

TEST(Certificate, TextsThatHoldNoneAreRefusedWithoutRepeatingThem) {
  EXPECT_EQ(read_certificates("secret").error().message, "holds no PEM certificate");
  EXPECT_EQ(read_key("secret").error().message,
            "holds no PEM private key that can be read without passphrase");
  const auto made = make_certificate({});
  ASSERT_TRUE(made);
  EXPECT_EQ(
      read_certificates(made->certificate + "-----BEGIN CERTIFICATE-----\n!\n").error().message,
      "holds a certificate that cannot be read");
}

}  // namespace
}  // namespace llmd::tls
