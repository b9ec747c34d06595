#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace llmd::flow {

/// A heap of objects that know where they are in it, so that any of them can leave or move: four
/// children a node, keys beside the pointers, the least key on top. The member `Position` is the
/// heap's while an object is in it. Cost: O(log n); allocates only to grow.
template <class Key, class T, uint32_t T::* Position>
class IndexedHeap {
 public:
  bool empty() const { return entries_.empty(); }
  size_t size() const { return entries_.size(); }
  /// Requires: not empty.
  T& top() const { return *entries_.front().item; }
  const Key& top_key() const { return entries_.front().key; }

  void push(const Key& key, T& item) {
    entries_.push_back({key, &item});
    rise(entries_.size() - 1);
  }
  /// Requires: it is in this heap.
  void remove(T& item) {
    const size_t at = item.*Position;
    const Entry last = entries_.back();
    entries_.pop_back();
    if (at < entries_.size()) replace(at, last);
  }
  /// Gives it another key. Requires: it is in this heap.
  void update(const Key& key, T& item) { replace(item.*Position, {key, &item}); }

  /// The keys of at most `most` of them, evenly from all: a heap's first entries are its least.
  template <class Visit>
  void for_each_key(size_t most, Visit visit) const {
    if (most == 0) return;
    const size_t step = std::max<size_t>((entries_.size() + most - 1) / most, 1);
    for (size_t i = 0; i < entries_.size(); i += step) visit(entries_[i].key);
  }
  /// Gives all of them other keys.
  template <class KeyOf>
  void rekey(KeyOf key_of) {
    for (auto& entry : entries_) entry.key = key_of(*entry.item);
    for (size_t i = entries_.size(); i-- > 0;) sink(i);
  }
  void clear() { entries_.clear(); }
  size_t capacity() const { return entries_.capacity(); }

 private:
  static constexpr size_t kChildren = 4;
  struct Entry {
    Key key;
    T* item;
  };

  void put(size_t at, const Entry& entry) {
    entries_[at] = entry;
    entry.item->*Position = static_cast<uint32_t>(at);
  }
  void replace(size_t at, const Entry& entry) {
    put(at, entry);
    rise(at);
    sink(entry.item->*Position);
  }
  void rise(size_t at) {
    const Entry entry = entries_[at];
    while (at > 0) {
      const size_t parent = (at - 1) / kChildren;
      if (!(entry.key < entries_[parent].key)) break;
      put(at, entries_[parent]);
      at = parent;
    }
    put(at, entry);
  }
  void sink(size_t at) {
    const Entry entry = entries_[at];
    for (;;) {
      const size_t first = at * kChildren + 1;
      if (first >= entries_.size()) break;
      size_t least = first;
      const size_t end = std::min(first + kChildren, entries_.size());
      for (size_t child = first + 1; child < end; ++child)
        if (entries_[child].key < entries_[least].key) least = child;
      if (!(entries_[least].key < entry.key)) break;
      put(at, entries_[least]);
      at = least;
    }
    put(at, entry);
  }

  std::vector<Entry> entries_;
};

}  // namespace llmd::flow
