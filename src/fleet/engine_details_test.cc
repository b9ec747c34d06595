#include "fleet/engine_details.h"

#include <gtest/gtest.h>

#include <thread>

namespace llmd::fleet {
namespace {

EngineDetails with_adapters(std::vector<std::string> running, std::vector<std::string> waiting) {
  return {.running_adapters = std::move(running), .waiting_adapters = std::move(waiting)};
}

TEST(EngineDigest, KnowsNothingAtFirst) {
  const EngineDigest digest;
  const auto adapter = digest.adapter(detail_key("a"));
  EXPECT_FALSE(adapter.running);
  EXPECT_FALSE(adapter.waiting);
  EXPECT_EQ(adapter.listed, 0u);
  EXPECT_FALSE(digest.attribute(detail_key("gpu/core-metrics-extractor")));
}

TEST(EngineDigest, TellsWhereAnAdapterIs) {
  EngineDigest digest;
  digest.store(with_adapters({"a", "b"}, {"c", "a"}));
  EXPECT_TRUE(digest.adapter(detail_key("a")).running);
  EXPECT_TRUE(digest.adapter(detail_key("a")).waiting);
  EXPECT_FALSE(digest.adapter(detail_key("b")).waiting);
  EXPECT_TRUE(digest.adapter(detail_key("c")).waiting);
  EXPECT_FALSE(digest.adapter(detail_key("c")).running);
  EXPECT_EQ(digest.adapter(detail_key("z")).listed, 4u);
}

TEST(EngineDigest, CountsNamesOnceAndForgetsOldOnes) {
  EngineDigest digest;
  digest.store(with_adapters({"a", "a", "b"}, {}));
  EXPECT_EQ(digest.adapter(0).listed, 2u);
  digest.store(with_adapters({"b"}, {}));
  EXPECT_EQ(digest.adapter(0).listed, 1u);
  EXPECT_FALSE(digest.adapter(detail_key("a")).running);
}

TEST(EngineDigest, KeepsNumbersByTheirFullKeys) {
  EngineDigest digest;
  digest.store({.custom = {{"gpu", 0.5}, {"heat", -3}}, .attributes = {{"load/", 7}}});
  EXPECT_EQ(digest.attribute(detail_key("gpu/core-metrics-extractor")), 0.5);
  EXPECT_EQ(digest.attribute(detail_key("heat/core-metrics-extractor")), -3);
  EXPECT_EQ(digest.attribute(detail_key("load/")), 7);
  EXPECT_FALSE(digest.attribute(detail_key("gpu")));
}

TEST(EngineDigest, IsBounded) {
  EngineDetails details;
  for (size_t i = 0; i < 2 * EngineDigest::kAdaptersMax; ++i) {
    details.running_adapters.push_back("r" + std::to_string(i));
    details.custom.emplace_back("c" + std::to_string(i), double(i));
  }
  EngineDigest digest;
  digest.store(details);
  EXPECT_EQ(digest.adapter(0).listed, EngineDigest::kAdaptersMax);
  EXPECT_TRUE(digest.adapter(detail_key("r0")).running);
  EXPECT_FALSE(digest.adapter(detail_key("r200")).running);
  EXPECT_EQ(digest.attribute(detail_key("c31/core-metrics-extractor")), 31);
  EXPECT_FALSE(digest.attribute(detail_key("c32/core-metrics-extractor")));
}

TEST(EngineDigest, NeverShowsHalfAWrite) {
  EngineDigest digest;
  const auto one = with_adapters({"a"}, {}), other = with_adapters({"b", "c"}, {"a"});
  digest.store(one);
  std::atomic<bool> done{false};
  std::atomic<int> torn{0};
  std::jthread reader([&] {
    while (!done.load()) {
      const auto a = digest.adapter(detail_key("a"));
      if (a.running != (a.listed == 1) || a.waiting != (a.listed == 3)) ++torn;
    }
  });
  for (int i = 0; i < 20'000; ++i) digest.store(i % 2 ? one : other);
  done = true;
  reader.join();
  EXPECT_EQ(torn, 0);
}

}  // namespace
}  // namespace llmd::fleet
