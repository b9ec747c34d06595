#include "token_cache.h"

#include <utility>

namespace llmd::text {

size_t TokenCache::Entry::bytes() const {
  return text.size() + tokens.size() * sizeof(uint32_t) + kEntryBytes;
}

TokenCache::~TokenCache() {
  const MutexLock lock(mutex_);
  resize(0);
}

bool TokenCache::find(std::string_view text, Tokens& out) {
  const auto hash = XXH3_128bits(text.data(), text.size());
  const MutexLock lock(mutex_);
  const auto at = by_hash_.find(hash);
  if (at == by_hash_.end() || at->second->text != text) return false;
  entries_.splice(entries_.begin(), entries_, at->second);
  const Tokens& tokens = at->second->tokens;
  out.insert(out.end(), tokens.begin(), tokens.end());
  return true;
}

void TokenCache::put(std::string_view text, std::span<const uint32_t> tokens) {
  Entry entry{.hash = XXH3_128bits(text.data(), text.size()),
              .text = std::string(text),
              .tokens = Tokens(tokens.begin(), tokens.end())};
  const size_t bytes = entry.bytes();
  if (bytes > bytes_max_) return;
  const MutexLock lock(mutex_);
  if (by_hash_.contains(entry.hash)) return;
  while (bytes_ + bytes > bytes_max_) drop_last();
  entries_.push_front(std::move(entry));
  by_hash_.emplace(entries_.front().hash, entries_.begin());
  resize(bytes_ + bytes);
}

void TokenCache::drop_last() {
  const Entry& last = entries_.back();
  resize(bytes_ - last.bytes());
  by_hash_.erase(last.hash);
  entries_.pop_back();
  metrics_.evictions.add();
}

void TokenCache::resize(size_t bytes) {
  metrics_.cache_bytes.add(static_cast<double>(bytes) - static_cast<double>(bytes_));
  bytes_ = bytes;
}

}  // namespace llmd::text
