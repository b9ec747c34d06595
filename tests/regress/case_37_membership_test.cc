#include "fleet/fleet.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>

namespace llmd::regress {
namespace {

/// production-stack#656, llm-d-router#2060, GIE#2308, #2571: servers that had left were still
/// asked, servers that had come were not, and locks of both met. What hung servers do to requests
/// is in integration/test_chaos.py and test_retry.py.
TEST(Case37, AfterAnyNumberOfChangesTheFleetIsWhatWasSetLast) {
  fleet::Fleet fleet;
  const auto at = [](const std::string& name, uint16_t port) {
    return fleet::EndpointSpec{.name = name, .address = "10.0.0.1", .port = port};
  };
  std::atomic<bool> stop = false;
  std::atomic<size_t> seen = 0;
  std::thread reader([&] {
    while (!stop) {
      const auto snapshot = fleet.snapshot();
      for (const auto& endpoint : snapshot->endpoints) seen += endpoint->spec().port > 0;
    }
  });
  for (int i = 0; i < 1000; ++i) {
    fleet.set({at("stays", 8000)});
    fleet.set({at("stays", 8000), at("comes", static_cast<uint16_t>(8001 + i % 3))});
    const auto listener = fleet.subscribe([](const auto&) {});
  }
  stop = true;
  reader.join();
  const auto last = fleet.snapshot();
  ASSERT_EQ(last->endpoints.size(), 2u);
  const auto comes =
      std::ranges::find(last->endpoints, "comes", [](const auto& e) { return e->spec().name; });
  ASSERT_NE(comes, last->endpoints.end());
  EXPECT_EQ((*comes)->spec().port, 8001 + 999 % 3);
}

}  // namespace
}  // namespace llmd::regress
