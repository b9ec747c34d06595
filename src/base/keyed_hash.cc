#include "base/keyed_hash.h"

#include <bit>
#include <cstring>

namespace llmd {
namespace {

/// SipHash with one round per word and three at the end (Aumasson and Bernstein, 2012).
class SipState {
 public:
  explicit SipState(const HashSecret& secret)
      : a_(secret[0] ^ 0x736f6d6570736575),
        b_(secret[1] ^ 0x646f72616e646f6d),
        c_(secret[0] ^ 0x6c7967656e657261),
        d_(secret[1] ^ 0x7465646279746573) {}

  void add(uint64_t word) {
    d_ ^= word;
    round();
    a_ ^= word;
  }
  uint64_t end() {
    c_ ^= 0xff;
    for (int i = 0; i < 3; ++i) round();
    return a_ ^ b_ ^ c_ ^ d_;
  }

 private:
  void round() {
    a_ += b_;
    c_ += d_;
    b_ = std::rotl(b_, 13) ^ a_;
    d_ = std::rotl(d_, 16) ^ c_;
    a_ = std::rotl(a_, 32) + d_;
    c_ += b_;
    d_ = std::rotl(d_, 21) ^ a_;
    b_ = std::rotl(b_, 17) ^ c_;
    c_ = std::rotl(c_, 32);
  }

  uint64_t a_, b_, c_, d_;
};

}  // namespace

const HashSecret& process_secret() {
  static const HashSecret secret = {random_seed(), random_seed()};
  return secret;
}

uint64_t keyed_hash(std::string_view text, const HashSecret& secret) {
  SipState state(secret);
  size_t at = 0;
  for (; text.size() - at >= sizeof(uint64_t); at += sizeof(uint64_t)) {
    uint64_t word;
    std::memcpy(&word, text.data() + at, sizeof word);
    state.add(word);
  }
  uint64_t last = 0;
  if (at < text.size()) std::memcpy(&last, text.data() + at, text.size() - at);
  state.add(last | static_cast<uint64_t>(text.size()) << 56);
  return state.end();
}

}  // namespace llmd
