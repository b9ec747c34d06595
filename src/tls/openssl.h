#pragma once

#include "base/result.h"

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

/// OpenSSL's objects with owners, and its errors as text.
namespace llmd::tls {

template <auto kFree>
struct FreeWith {
  template <class T>
  void operator()(T* object) const {
    kFree(object);
  }
};
using BioPtr = std::unique_ptr<BIO, FreeWith<BIO_free_all>>;
using KeyPtr = std::unique_ptr<EVP_PKEY, FreeWith<EVP_PKEY_free>>;
using CertificatePtr = std::unique_ptr<X509, FreeWith<X509_free>>;
using ContextPtr = std::unique_ptr<SSL_CTX, FreeWith<SSL_CTX_free>>;

/// The oldest error of this thread's queue in OpenSSL's words, and empties the queue.
std::string take_error();

/// The certificates of a PEM text, in its order; at least one. Errors do not repeat the text.
Result<std::vector<CertificatePtr>> read_certificates(std::string_view pem);
/// The private key of a PEM text. One that needs a passphrase is an error.
Result<KeyPtr> read_key(std::string_view pem);

}  // namespace llmd::tls
