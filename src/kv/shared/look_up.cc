#include "look_up.h"

#include "commands.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

namespace llmd::kv_shared {
namespace {

constexpr size_t kWindowMin = 128;
constexpr size_t kWindowMax = 4096;
/// Different entries that are remembered; what is beyond is read each time.
constexpr size_t kMeaningsMax = 65536;

}  // namespace

LookUp::LookUp(redis::Client& client, const Weight& weight, Question question,
               std::function<void(std::optional<std::vector<Hit>>)> done)
    : client_(client),
      weight_(weight),
      question_(std::move(question)),
      done_(std::move(done)),
      best_(question_.pods.size(), -1),
      hits_(question_.pods.size()) {
  for (size_t i = 0; i < question_.pods.size(); ++i) pods_.emplace(question_.pods[i], i);
}

LookUp::~LookUp() {
  client_.forget(*this);
}

/// Asks for the next window; for that of the next chain where this one has ended.
void LookUp::go_on() {
  while (chain_ < question_.chains.size() &&
         (next_ == question_.chains[chain_].size() || (holders_.empty() && !at_start_))) {
    ++chain_;
    next_ = window_ = 0;
    at_start_ = true;
  }
  if (chain_ == question_.chains.size()) return done_(std::move(hits_));
  const auto rest = std::span(question_.chains[chain_]).subspan(next_);
  window_ = std::min(rest.size(), std::clamp(2 * window_, kWindowMin, kWindowMax));
  next_ += window_;
  std::string commands;
  pending_ = append_look_up(commands, rest.first(window_));
  client_.send(commands, pending_, *this);
}

void LookUp::on_reply(const redis::Reply& reply) {
  if (reply.failed()) return done_(std::nullopt);
  if (at_start_) {
    holders_.resize(hits_.size());
    std::iota(holders_.begin(), holders_.end(), size_t{0});
    at_start_ = false;
  }
  if (!holders_.empty()) take_block(reply);
  if (--pending_ == 0) go_on();
}

void LookUp::take_block(const redis::Reply& reply) {
  reply.each([&](const redis::Reply& field) {
    const Meaning& meaning = meaning_of(field.text());
    if (meaning.weight >= 0) best_[meaning.pod] = std::max(best_[meaning.pod], meaning.weight);
  });
  std::erase_if(holders_, [&](size_t pod) { return best_[pod] < 0; });
  for (const size_t pod : holders_) {
    hits_[pod].score += best_[pod];
    ++hits_[pod].blocks;
  }
  std::ranges::fill(best_, -1);
}

const LookUp::Meaning& LookUp::meaning_of(std::string_view field) {
  field_ = field;
  if (const auto known = meanings_.find(field_); known != meanings_.end()) return known->second;
  Meaning meaning;
  if (const auto entry = decode(field)) {
    if (const auto pod = pods_.find(entry->pod); pod != pods_.end())
      meaning = {pod->second, entry->speculative ? 1 : weight_(entry->tier)};
  }
  if (meanings_.size() >= kMeaningsMax) meanings_.clear();
  return meanings_.emplace(field_, meaning).first->second;
}

}  // namespace llmd::kv_shared
