#include "look_up.h"

#include "commands.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <span>
#include <utility>

namespace llmd::kv_shared {
namespace {

constexpr size_t kWindowMin = 128;
constexpr size_t kWindowMax = 4096;
/// Different entries that are remembered; what is beyond is read each time.
constexpr size_t kMeaningsMax = 65536;

/// Tiers that are told apart.
constexpr size_t kTiersMax = 32;

uint32_t& blocks_in(Hit& hit, const std::string& tier) {
  const auto at = std::ranges::find(hit.tiers, tier, &Hit::Tier::name);
  return at == hit.tiers.end() ? hit.tiers.emplace_back(tier).blocks : at->blocks;
}

}  // namespace

LookUp::LookUp(redis::Client& client, const Weight& weight, Question question,
               std::function<void(std::optional<std::vector<Hit>>)> done)
    : client_(client),
      weight_(weight),
      question_(std::move(question)),
      done_(std::move(done)),
      held_(question_.pods.size()),
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
    for (Held& held : held_) held = {.lasting = ~uint32_t{0}};
    at_start_ = false;
  }
  if (!holders_.empty()) take_block(reply);
  if (--pending_ == 0) go_on();
}

void LookUp::take_block(const redis::Reply& reply) {
  reply.each([&](const redis::Reply& field) {
    const Meaning& meaning = meaning_of(field.text());
    if (meaning.weight < 0) return;
    Held& held = held_[meaning.pod];
    held.weight = std::max(held.weight, meaning.weight);
    held.tiers |= meaning.tier;
  });
  std::erase_if(holders_, [&](size_t pod) { return held_[pod].weight < 0; });
  for (const size_t pod : holders_) {
    Held& held = held_[pod];
    hits_[pod].score += held.weight;
    ++hits_[pod].blocks;
    held.lasting &= held.tiers;
    for (uint32_t left = held.lasting; left != 0; left &= left - 1)
      ++blocks_in(hits_[pod], tiers_[static_cast<size_t>(std::countr_zero(left))]);
  }
  for (Held& held : held_) held = {.lasting = held.lasting};
}

const LookUp::Meaning& LookUp::meaning_of(std::string_view field) {
  field_ = field;
  if (const auto known = meanings_.find(field_); known != meanings_.end()) return known->second;
  Meaning meaning;
  if (const auto entry = decode(field)) {
    if (const auto pod = pods_.find(entry->pod); pod != pods_.end())
      meaning = {pod->second, entry->speculative ? 1 : weight_(entry->tier),
                 bit_of(entry->speculative ? "" : entry->tier)};
  }
  if (meanings_.size() >= kMeaningsMax) meanings_.clear();
  return meanings_.emplace(field_, meaning).first->second;
}

uint32_t LookUp::bit_of(std::string_view tier) {
  auto at = std::ranges::find(tiers_, tier);
  if (at == tiers_.end()) {
    if (tiers_.size() == kTiersMax) return 0;
    at = tiers_.emplace(at, tier);
  }
  return uint32_t{1} << (at - tiers_.begin());
}

}  // namespace llmd::kv_shared
