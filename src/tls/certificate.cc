#include "tls/certificate.h"

#include "openssl.h"

#include "io/socket.h"

#include <openssl/bn.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

namespace llmd::tls {
namespace {

constexpr auto kTenYears = std::chrono::hours(24 * 3650);

std::unexpected<Error> failed(std::string_view what) {
  return fail(Code::kInternal, std::string(what) + ": " + take_error());
}

time_t seconds_of(WallTime time) {
  return std::chrono::system_clock::to_time_t(
      std::chrono::time_point_cast<std::chrono::system_clock::duration>(time));
}

bool add_name(X509_NAME* name, const char* field, const std::string& value) {
  return value.empty() ||
         X509_NAME_add_entry_by_txt(name, field, MBSTRING_UTF8,
                                    reinterpret_cast<const unsigned char*>(value.data()),
                                    static_cast<int>(value.size()), -1, 0) == 1;
}

bool add_extension(X509* certificate, X509* issuer, int id, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const std::unique_ptr<X509_EXTENSION, FreeWith<X509_EXTENSION_free>> extension(
      X509V3_EXT_conf_nid(nullptr, &context, id, value.c_str()));
  return extension && X509_add_ext(certificate, extension.get(), -1) == 1;
}

bool add_extensions(X509* certificate, X509* issuer, const CertificateSpec& spec) {
  if (!add_extension(certificate, issuer, NID_basic_constraints,
                     spec.authority ? "critical,CA:TRUE" : "critical,CA:FALSE"))
    return false;
  if (!add_extension(certificate, issuer, NID_key_usage,
                     spec.authority ? "critical,keyCertSign,cRLSign"
                                    : "critical,digitalSignature,keyEncipherment"))
    return false;
  if (!spec.authority &&
      !add_extension(certificate, issuer, NID_ext_key_usage, "serverAuth,clientAuth"))
    return false;
  std::string names;
  for (const auto& name : spec.names) {
    const bool address = io::SocketAddress::parse(name, 0).has_value();
    names += (names.empty() ? "" : ",") + std::string(address ? "IP:" : "DNS:") + name;
  }
  return names.empty() || add_extension(certificate, issuer, NID_subject_alt_name, names);
}

bool set_random_serial(X509* certificate) {
  const std::unique_ptr<BIGNUM, FreeWith<BN_free>> number(BN_new());
  return number && BN_rand(number.get(), 127, BN_RAND_TOP_ONE, BN_RAND_BOTTOM_ANY) == 1 &&
         BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate)) != nullptr;
}

std::string text_of(BIO* memory) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(memory, &data);
  return {data, static_cast<size_t>(size)};
}

Result<PemPair> to_pem(X509* certificate, EVP_PKEY* key) {
  const BioPtr certificate_text(BIO_new(BIO_s_mem()));
  const BioPtr key_text(BIO_new(BIO_s_mem()));
  if (PEM_write_bio_X509(certificate_text.get(), certificate) != 1 ||
      PEM_write_bio_PrivateKey(key_text.get(), key, nullptr, nullptr, 0, nullptr, nullptr) != 1)
    return failed("cannot write a certificate");
  return PemPair{text_of(certificate_text.get()), text_of(key_text.get())};
}

}  // namespace

Result<PemPair> make_certificate(const CertificateSpec& spec, const PemPair* issuer) {
  const KeyPtr key(spec.key == KeyKind::kRsa4096 ? EVP_RSA_gen(4096) : EVP_EC_gen("P-256"));
  if (!key) return failed("cannot make a private key");

  CertificatePtr issuer_certificate;
  KeyPtr issuer_key;
  if (issuer) {
    LLMD_TRY_ASSIGN(auto certificates, read_certificates(issuer->certificate));
    issuer_certificate = std::move(certificates.front());
    LLMD_TRY_ASSIGN(issuer_key, read_key(issuer->key));
  }

  const CertificatePtr certificate(X509_new());
  X509* c = certificate.get();
  X509* signed_by = issuer ? issuer_certificate.get() : c;
  time_t from = seconds_of(spec.valid_from), until = seconds_of(spec.valid_until);
  const bool made = c && X509_set_version(c, X509_VERSION_3) == 1 && set_random_serial(c) &&
                    X509_time_adj_ex(X509_getm_notBefore(c), 0, 0, &from) != nullptr &&
                    X509_time_adj_ex(X509_getm_notAfter(c), 0, 0, &until) != nullptr &&
                    add_name(X509_get_subject_name(c), "O", spec.organization) &&
                    add_name(X509_get_subject_name(c), "CN", spec.common_name) &&
                    X509_set_issuer_name(c, X509_get_subject_name(signed_by)) == 1 &&
                    X509_set_pubkey(c, key.get()) == 1 && add_extensions(c, signed_by, spec) &&
                    X509_sign(c, issuer ? issuer_key.get() : key.get(), EVP_sha256()) > 0;
  if (!made) return failed("cannot make a certificate");
  return to_pem(c, key.get());
}

Result<PemPair> make_self_signed(std::string organization, WallTime now) {
  CertificateSpec spec;
  spec.organization = std::move(organization);
  spec.valid_from = now - std::chrono::hours(1);
  spec.valid_until = spec.valid_from + kTenYears;
  spec.key = KeyKind::kRsa4096;
  return make_certificate(spec);
}

}  // namespace llmd::tls
