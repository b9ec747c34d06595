#include "fleet/ledger.h"

#include <gtest/gtest.h>

namespace llmd::regress {
namespace {

/// llm-d-router#1739, #2243: counters drifted when an endpoint flapped, and went below zero when a
/// request was released on two paths.

struct Case21 : ::testing::Test {
  fleet::EndpointPtr endpoint(uint64_t generation) {
    return std::make_shared<fleet::Endpoint>(
        fleet::EndpointSpec{.name = "p", .address = "10.0.0.1", .port = 8000}, 0, generation);
  }
  fleet::Ledger ledger;
};

TEST_F(Case21, OldRequestsTakeNothingFromTheReturnedEndpoint) {
  const auto before = endpoint(1), after = endpoint(2);
  ledger.on_added(before);
  fleet::Charge old[3];
  for (auto& charge : old) charge = ledger.charge(*before, 1, 10);
  ledger.on_removed(before);
  ledger.on_added(after);
  fleet::Charge current = ledger.charge(*after, 1, 10);
  for (auto& charge : old) ledger.release(charge);
  EXPECT_EQ(ledger.load(*after), (fleet::Ledger::Load{1, 10}));
  ledger.release(current);
  EXPECT_EQ(ledger.alarms(), 0u);
}

TEST_F(Case21, SecondReleaseDoesNothing) {
  const auto only = endpoint(1);
  ledger.on_added(only);
  fleet::Charge first = ledger.charge(*only, 1, 10);
  fleet::Charge second = ledger.charge(*only, 1, 5);
  ledger.release(first);
  ledger.release(first);
  EXPECT_EQ(ledger.load(*only), (fleet::Ledger::Load{1, 5}));
  ledger.release(second);
}

}  // namespace
}  // namespace llmd::regress
