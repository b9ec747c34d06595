#pragma once

#include "kv_shared/shared_index.h"

#include <map>
#include <string>
#include <unordered_map>
#include <vector>

namespace llmd::kv_shared {

/// One question on its way through the server: windows of its chains are looked up, each twice as
/// long as the one before, until nobody has a chain any more. Threading: the client's loop.
class LookUp final : redis::ReplyHandler {
 public:
  using Weight = std::function<double(std::string_view)>;
  /// `done` gets the answer, or nothing when it did not come; it may destroy this.
  LookUp(redis::Client& client, const Weight& weight, Question question,
         std::function<void(std::optional<std::vector<Hit>>)> done);
  ~LookUp();
  LookUp(const LookUp&) = delete;
  LookUp& operator=(const LookUp&) = delete;

  /// Requires: the client is up.
  void start() { go_on(); }

 private:
  /// What an entry means for this question.
  struct Meaning {
    size_t pod = 0;
    double weight = -1;  // below 0: nothing
    uint32_t tier = 0;   // a bit; 0: one too many
  };

  void on_reply(const redis::Reply& reply) override;
  void on_failure() override { done_(std::nullopt); }

  void go_on();
  void take_block(const redis::Reply& reply);
  const Meaning& meaning_of(std::string_view field);
  uint32_t bit_of(std::string_view tier);

  redis::Client& client_;
  const Weight& weight_;
  const Question question_;
  const std::function<void(std::optional<std::vector<Hit>>)> done_;
  std::map<std::string_view, size_t> pods_;
  std::unordered_map<std::string, Meaning> meanings_;
  std::string field_;  // reused

  size_t chain_ = 0;
  size_t next_ = 0;              // the key of the chain that is asked for next
  size_t window_ = 0;            // keys that were last asked for
  size_t pending_ = 0;           // of them, without a reply
  std::vector<size_t> holders_;  // pods that have the chain so far
  /// What a pod has of the block at hand, and of all blocks of the chain before.
  struct Held {
    double weight = -1;    // of the best tier; below 0: it is not there
    uint32_t tiers = 0;    // bits
    uint32_t lasting = 0;  // of the tiers that have had all
  };
  std::vector<Held> held_;          // by pod
  std::vector<std::string> tiers_;  // names, by bit
  bool at_start_ = true;
  std::vector<Hit> hits_;
};

}  // namespace llmd::kv_shared
