#include "block_digest.h"

#include "base/check.h"

#include <openssl/evp.h>

namespace llmd::sim {
namespace {

constexpr std::string_view kUnseeded = "vllm-none-hash";
constexpr char kNull = '\xf6';

enum Major : uint8_t { kUnsigned = 0, kBytes = 2, kText = 3, kArray = 4 };

/// The head of a CBOR item, in as few bytes as its value allows.
void append_head(std::string& out, Major major, uint64_t value) {
  const auto type = static_cast<uint8_t>(major << 5);
  if (value < 24) {
    out.push_back(static_cast<char>(type | value));
    return;
  }
  const int log_bytes = value <= 0xff ? 0 : value <= 0xffff ? 1 : value <= 0xffffffff ? 2 : 3;
  out.push_back(static_cast<char>(type | (24 + log_bytes)));
  for (int shift = (8 << log_bytes) - 8; shift >= 0; shift -= 8)
    out.push_back(static_cast<char>(value >> shift));
}

void append_text(std::string& out, std::string_view text) {
  append_head(out, kText, text.size());
  out += text;
}

void append_extras(std::string& out, const BlockExtras& extras) {
  if (extras.empty()) {
    out.push_back(kNull);
    return;
  }
  append_head(out, kArray, !extras.lora_name.empty() + !extras.cache_salt.empty());
  if (!extras.lora_name.empty()) {
    append_head(out, kArray, 3);
    append_text(out, "lora");
    append_text(out, extras.lora_name);
    append_text(out, extras.lora_path);
  }
  if (!extras.cache_salt.empty()) {
    append_head(out, kArray, 2);
    append_text(out, "cache_salt");
    append_text(out, extras.cache_salt);
  }
}

}  // namespace

uint64_t short_hash(const Digest& digest) {
  uint64_t hash = 0;
  for (size_t i = digest.size() - 8; i < digest.size(); ++i) hash = hash << 8 | digest[i];
  return hash;
}

/// The algorithm is looked up once; OpenSSL does so for every digest otherwise.
struct DigestChain::Sha256 {
  Sha256() : md(EVP_MD_fetch(nullptr, "SHA256", nullptr)), context(EVP_MD_CTX_new()) {
    CHECK(md && context);
  }
  ~Sha256() {
    EVP_MD_CTX_free(context);
    EVP_MD_free(md);
  }
  Digest of(std::string_view bytes) const {
    Digest digest;
    CHECK(EVP_DigestInit_ex2(context, md, nullptr) == 1);
    CHECK(EVP_DigestUpdate(context, bytes.data(), bytes.size()) == 1);
    CHECK(EVP_DigestFinal_ex(context, digest.data(), nullptr) == 1);
    return digest;
  }

  EVP_MD* md;
  EVP_MD_CTX* context;
};

DigestChain::DigestChain(std::string_view hash_seed) : sha256_(std::make_unique<Sha256>()) {
  append_text(cbor_, hash_seed.empty() ? kUnseeded : hash_seed);
  root_ = sha256_->of(cbor_);
}

DigestChain::~DigestChain() = default;

Digest DigestChain::next(const Digest& parent, std::span<const uint32_t> tokens,
                         const BlockExtras& extras) {
  cbor_.clear();
  append_head(cbor_, kArray, 3);
  append_head(cbor_, kBytes, parent.size());
  cbor_.append(reinterpret_cast<const char*>(parent.data()), parent.size());
  append_head(cbor_, kArray, tokens.size());
  for (const uint32_t token : tokens) append_head(cbor_, kUnsigned, token);
  append_extras(cbor_, extras);
  return sha256_->of(cbor_);
}

}  // namespace llmd::sim
