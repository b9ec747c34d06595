#include "sim/request_id.h"

#include "base/check.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <cstring>

namespace llmd::sim {

std::string request_id(int64_t seed, uint16_t port, uint64_t n) {
  static constexpr unsigned char kUrlNamespace[16] = {0x6b, 0xa7, 0xb8, 0x11, 0x9d, 0xad,
                                                      0x11, 0xd1, 0x80, 0xb4, 0x00, 0xc0,
                                                      0x4f, 0xd4, 0x30, 0xc8};
  static const EVP_MD* const sha1 = EVP_MD_fetch(nullptr, "SHA1", nullptr);
  char input[96];
  std::memcpy(input, kUrlNamespace, 16);
  const auto end = fmt::format_to_n(input + 16, sizeof input - 16, "{}-{}-{}", seed, port, n);

  unsigned char digest[EVP_MAX_MD_SIZE];
  CHECK(EVP_Digest(input, static_cast<size_t>(end.out - input), digest, nullptr, sha1, nullptr) ==
        1);
  digest[6] = static_cast<unsigned char>((digest[6] & 0x0f) | 0x50);
  digest[8] = static_cast<unsigned char>((digest[8] & 0x3f) | 0x80);

  static constexpr char kHex[] = "0123456789abcdef";
  std::string id(36, '-');
  size_t at = 0;
  for (size_t i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) ++at;
    id[at++] = kHex[digest[i] >> 4];
    id[at++] = kHex[digest[i] & 15];
  }
  return id;
}

}  // namespace llmd::sim
