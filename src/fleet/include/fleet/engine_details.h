#pragma once

#include "base/mutex.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace llmd::fleet {

/// What a model server's page says beyond the numbers of EndpointMetrics: lists, and numbers that
/// the configuration names.
struct EngineDetails {
  std::vector<std::string> running_adapters;  // LoRA adapters, as listed
  std::vector<std::string> waiting_adapters;
  std::vector<std::pair<std::string, double>> custom;  // attribute key and value, as configured
  /// Numbers that other sources know of the endpoint, by full attribute key: "name/producer".
  std::vector<std::pair<std::string, double>> attributes;

  bool operator==(const EngineDetails&) const = default;
};

/// How adapters and attributes are named in EngineDigest. An attribute's name is its full key;
/// that of custom numbers ends in kCoreProducer.
uint64_t detail_key(std::string_view name);
inline constexpr std::string_view kCoreProducer = "/core-metrics-extractor";

/// The part of the details that decisions read. Names are hashes, so that everything fits in words
/// that are read under a sequence number.
/// Threading: one writer, any readers, without locks; readers retry while a write is under way.
class EngineDigest {
 public:
  static constexpr size_t kAdaptersMax =
      128;  // running and waiting, each; further names are unseen
  static constexpr size_t kAttributesMax = 32;

  struct Adapter {
    bool running = false;
    bool waiting = false;
    size_t listed = 0;  // different adapters that run plus those that wait
  };
  Adapter adapter(uint64_t key) const;
  /// The number of this attribute; nothing when no source ever had it.
  std::optional<double> attribute(uint64_t key) const;

  void store(const EngineDetails& details);

 private:
  enum Count : size_t { kRunning, kWaiting, kAttributes, kCounts };
  static constexpr size_t kWords = 2 * kAdaptersMax + 2 * kAttributesMax;

  void put(size_t at, uint64_t word) { words_[at].store(word, std::memory_order_release); }
  uint64_t get(size_t at) const { return words_[at].load(std::memory_order_acquire); }
  size_t put_names(const std::vector<std::string>& names, size_t from);
  bool has(uint64_t key, size_t from, size_t count) const;
  template <class Read>
  auto consistently(Read read) const;

  std::atomic<uint32_t> sequence_{0};
  std::array<std::atomic<uint32_t>, kCounts> counts_{};
  // Running adapters, waiting ones, keys of attributes, their values.
  std::array<std::atomic<uint64_t>, kWords> words_{};
};

/// The details as last scraped. Threading: any; store() from the scrape thread. Cost of load(): a
/// lock.
class DetailsSlot {
 public:
  /// Never null.
  std::shared_ptr<const EngineDetails> load() const {
    const MutexLock lock(mutex_);
    return details_;
  }
  const EngineDigest& digest() const { return *digest_; }
  void store(std::shared_ptr<const EngineDetails> details) {
    digest_->store(*details);
    const MutexLock lock(mutex_);
    details_ = std::move(details);
  }

 private:
  const std::unique_ptr<EngineDigest> digest_ = std::make_unique<EngineDigest>();  // 3 kB
  mutable Mutex mutex_;
  std::shared_ptr<const EngineDetails> details_ LLMD_GUARDED_BY(mutex_) =
      std::make_shared<const EngineDetails>();
};

}  // namespace llmd::fleet
