#include "flow/indexed_heap.h"

#include "base/rng.h"

#include <gtest/gtest.h>

#include <deque>
#include <set>

namespace llmd::flow {
namespace {

struct Item {
  int key = 0;
  uint32_t position = 0;
};
using Heap = IndexedHeap<int, Item, &Item::position>;

TEST(IndexedHeap, AgreesWithASortedSet) {
  Rng rng(7);
  Heap heap;
  std::deque<Item> items(200);
  std::set<std::pair<int, Item*>> model;
  std::vector<Item*> out, in;
  for (auto& item : items) out.push_back(&item);
  for (int step = 0; step < 20'000; ++step) {
    const auto action = rng.below(3);
    if (action == 0 && !out.empty()) {
      const size_t i = rng.below(out.size());
      Item* item = out[i];
      item->key = static_cast<int>(rng.below(1000));
      heap.push(item->key, *item);
      model.emplace(item->key, item);
      in.push_back(item);
      out.erase(out.begin() + static_cast<ptrdiff_t>(i));
    } else if (action == 1 && !in.empty()) {
      const size_t i = rng.below(in.size());
      Item* item = in[i];
      heap.remove(*item);
      model.erase({item->key, item});
      out.push_back(item);
      in.erase(in.begin() + static_cast<ptrdiff_t>(i));
    } else if (!in.empty()) {
      Item* item = in[rng.below(in.size())];
      model.erase({item->key, item});
      item->key = static_cast<int>(rng.below(1000));
      heap.update(item->key, *item);
      model.emplace(item->key, item);
    }
    ASSERT_EQ(heap.size(), model.size());
    if (!model.empty()) ASSERT_EQ(heap.top_key(), model.begin()->first) << "step " << step;
  }
}

TEST(IndexedHeap, TakesOtherKeys) {
  Heap heap;
  std::deque<Item> items(50);
  for (int i = 0; i < 50; ++i) {
    items[static_cast<size_t>(i)].key = i;
    heap.push(i, items[static_cast<size_t>(i)]);
  }
  heap.rekey([](const Item& item) { return -item.key; });
  for (int i = 49; i >= 0; --i) {
    ASSERT_EQ(heap.top().key, i);
    heap.remove(heap.top());
  }
}

}  // namespace
}  // namespace llmd::flow
