#pragma once

#include "base/clock.h"
#include "base/result.h"

#include <cstdint>
#include <string>
#include <vector>

namespace llmd::tls {

/// A certificate with its issuers, and its private key, as PEM text. The key is a secret.
struct PemPair {
  std::string certificate;
  std::string key;
};

enum class KeyKind : uint8_t { kP256, kRsa4096 };

struct CertificateSpec {
  std::string organization;        // "": none
  std::string common_name;         // "": none
  std::vector<std::string> names;  // DNS names and IP addresses that it is valid for
  WallTime valid_from;
  WallTime valid_until;
  bool authority = false;  // may sign others
  KeyKind key = KeyKind::kP256;
};

/// A new key and its certificate, signed by `issuer` or, without one, by itself. Cost: an RSA key
/// of 4096 bits takes about a second.
Result<PemPair> make_certificate(const CertificateSpec& spec, const PemPair* issuer = nullptr);

/// What a server without a certificate of its own shows: RSA 4096, valid for ten years from an hour
/// before `now`, no names. It encrypts, and proves nothing.
Result<PemPair> make_self_signed(std::string organization, WallTime now);

}  // namespace llmd::tls
