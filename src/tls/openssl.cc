#include "openssl.h"

#include <openssl/err.h>
#include <openssl/pem.h>

namespace llmd::tls {
namespace {

BioPtr reader_of(std::string_view pem) {
  return BioPtr(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
}

/// OpenSSL would ask at the terminal.
int no_passphrase(char*, int, int, void*) {
  return 0;
}

}  // namespace

std::string take_error() {
  const unsigned long error = ERR_get_error();
  ERR_clear_error();
  const char* reason = ERR_reason_error_string(error);
  return reason ? reason : "unknown reason";
}

Result<std::vector<CertificatePtr>> read_certificates(std::string_view pem) {
  const BioPtr reader = reader_of(pem);
  std::vector<CertificatePtr> certificates;
  while (auto* one = PEM_read_bio_X509(reader.get(), nullptr, no_passphrase, nullptr))
    certificates.emplace_back(one);
  const unsigned long end = ERR_peek_last_error();
  ERR_clear_error();
  if (certificates.empty()) return fail(Code::kBadRequest, "holds no PEM certificate");
  if (ERR_GET_REASON(end) != PEM_R_NO_START_LINE)
    return fail(Code::kBadRequest, "holds a certificate that cannot be read");
  return certificates;
}

Result<KeyPtr> read_key(std::string_view pem) {
  KeyPtr key(PEM_read_bio_PrivateKey(reader_of(pem).get(), nullptr, no_passphrase, nullptr));
  ERR_clear_error();
  if (!key)
    return fail(Code::kBadRequest, "holds no PEM private key that can be read without passphrase");
  return key;
}

}  // namespace llmd::tls
