#include "fleet/ledger.h"

#include "base/rng.h"
#include "fleet/fleet.h"

#include <gtest/gtest.h>

#include <thread>
#include <type_traits>

namespace llmd::fleet {
namespace {

static_assert(std::is_trivially_copyable_v<Charge>);

using Load = Ledger::Load;

/// A fleet with a ledger that listens to it.
struct World {
  Fleet fleet;
  std::shared_ptr<Ledger> ledger = std::make_shared<Ledger>();
  std::shared_ptr<void> token = fleet.listen(ledger);

  void set(const std::vector<std::string>& names) {
    std::vector<EndpointSpec> specs;
    for (const auto& name : names)
      specs.push_back({.name = name, .address = "10.0.0.1", .port = 8000});
    fleet.set(std::move(specs));
  }
  EndpointPtr endpoint(const std::string& name) const {
    const auto members = fleet.snapshot();
    for (const auto& e : members->endpoints)
      if (e->spec().name == name) return e;
    return nullptr;
  }
};

TEST(Ledger, ChargesAndReleases) {
  World w;
  w.set({"p"});
  const auto p = w.endpoint("p");
  Charge a = w.ledger->charge(*p, 1, 100);
  Charge b = w.ledger->charge(*p, 1, 20);
  EXPECT_EQ(w.ledger->load(*p), (Load{2, 120}));
  w.ledger->release(a);
  EXPECT_EQ(w.ledger->load(*p), (Load{1, 20}));
  w.ledger->release(b);
  EXPECT_EQ(w.ledger->load(*p), (Load{0, 0}));
  EXPECT_EQ(w.ledger->alarms(), 0u);
}

// A server that disappears and returns while requests are on it must not inherit their releases.
TEST(Ledger, FlappedEndpointCountsOnlyItsOwnRequests) {
  World w;
  w.set({"p"});
  const auto old = w.endpoint("p");
  Charge charges[3];
  for (auto& charge : charges) charge = w.ledger->charge(*old, 1, 10);
  w.set({});
  w.set({"p"});
  const auto fresh = w.endpoint("p");
  EXPECT_EQ(w.ledger->load(*fresh), (Load{0, 0}));
  w.ledger->charge(*fresh, 1, 5);
  for (auto& charge : charges) w.ledger->release(charge);
  EXPECT_EQ(w.ledger->load(*fresh), (Load{1, 5}));
  EXPECT_EQ(w.ledger->alarms(), 0u);
}

TEST(Ledger, SecondReleaseDoesNothing) {
  World w;
  w.set({"p"});
  const auto p = w.endpoint("p");
  w.ledger->charge(*p, 1, 1);
  Charge charge = w.ledger->charge(*p, 1, 10);
  w.ledger->release(charge);
  w.ledger->release(charge);
  EXPECT_EQ(w.ledger->load(*p), (Load{1, 1}));
  EXPECT_EQ(w.ledger->alarms(), 0u);
}

TEST(Ledger, ReleasesTokensBeforeTheRest) {
  World w;
  w.set({"p"});
  const auto p = w.endpoint("p");
  Charge charge = w.ledger->charge(*p, 1, 10);
  w.ledger->release_tokens(charge);
  w.ledger->release_tokens(charge);
  EXPECT_EQ(w.ledger->load(*p), (Load{1, 0}));
  w.ledger->release(charge);
  EXPECT_EQ(w.ledger->load(*p), (Load{0, 0}));
  EXPECT_EQ(w.ledger->alarms(), 0u);
}

TEST(Ledger, StopsAtZeroAndRaisesAnAlarm) {
  World w;
  w.set({"p"});
  const auto p = w.endpoint("p");
  Charge charge = w.ledger->charge(*p, 1, 10);
  Charge copy = charge;
  w.ledger->release(charge);
  w.ledger->release(copy);
  EXPECT_EQ(w.ledger->load(*p), (Load{0, 0}));
  EXPECT_GT(w.ledger->alarms(), 0u);
}

TEST(Ledger, IgnoresEndpointsThatAreGone) {
  World w;
  w.set({"p"});
  const auto p = w.endpoint("p");
  w.set({});
  Charge charge = w.ledger->charge(*p, 1, 10);
  EXPECT_EQ(charge.account, nullptr);
  w.ledger->release(charge);
  EXPECT_EQ(w.ledger->load(*p), (Load{0, 0}));
  EXPECT_EQ(w.ledger->alarms(), 0u);
}

TEST(Ledger, KeepsCountsWhenLabelsChange) {
  World w;
  w.set({"p"});
  w.ledger->charge(*w.endpoint("p"), 1, 10);
  w.fleet.set({{.name = "p", .address = "10.0.0.1", .port = 8000, .labels = {{"role", "decode"}}}});
  EXPECT_EQ(w.ledger->load(*w.endpoint("p")), (Load{1, 10}));
}

TEST(Ledger, CountsNegativeAmountsAsZero) {
  World w;
  w.set({"p"});
  const auto p = w.endpoint("p");
  Charge charge = w.ledger->charge(*p, 1, -5);
  EXPECT_EQ(w.ledger->load(*p), (Load{1, 0}));
  w.ledger->release(charge);
  EXPECT_EQ(w.ledger->alarms(), 0u);
}

TEST(Ledger, DumpsThoseWithLoad) {
  World w;
  w.set({"a", "b", "c"});
  w.ledger->charge(*w.endpoint("b"), 2, 7);
  const auto dump = w.ledger->dump();
  ASSERT_EQ(dump.size(), 1u);
  EXPECT_EQ(dump[0].first, "default/b");
  EXPECT_EQ(dump[0].second, (Load{2, 7}));
}

/// Random charges, releases and membership changes against plain sums per generation.
TEST(Ledger, AgreesWithAModel) {
  constexpr uint64_t kSeed = 11;
  struct Debt {
    Charge charge;
    uint64_t generation;
    Load load;
  };
  Rng rng(kSeed);
  World w;
  std::vector<Debt> debts;
  for (int step = 0; step < 5'000; ++step) {
    const auto action = rng.below(20);
    if (action == 0) {
      std::vector<std::string> names;
      for (const char* name : {"a", "b", "c", "d"})
        if (rng.below(4) != 0) names.emplace_back(name);
      w.set(names);
    } else if (action < 10) {
      const auto snapshot = w.fleet.snapshot();
      if (snapshot->endpoints.empty()) continue;
      const auto& e = snapshot->endpoints[rng.below(snapshot->endpoints.size())];
      const Load load{1, static_cast<int64_t>(rng.below(100))};
      debts.push_back({w.ledger->charge(*e, load.requests, load.tokens), e->generation(), load});
    } else if (!debts.empty()) {
      auto& debt = debts[rng.below(debts.size())];
      if (action < 13) {
        w.ledger->release_tokens(debt.charge);
        debt.load.tokens = 0;
      } else {
        w.ledger->release(debt.charge);
        debt = debts.back();
        debts.pop_back();
      }
    }
    const auto members = w.fleet.snapshot();
    for (const auto& e : members->endpoints) {
      Load expected;
      for (const auto& debt : debts) {
        if (debt.generation != e->generation()) continue;
        expected.requests += debt.load.requests;
        expected.tokens += debt.load.tokens;
      }
      ASSERT_EQ(w.ledger->load(*e), expected) << "step " << step << " seed " << kSeed;
    }
  }
  EXPECT_EQ(w.ledger->alarms(), 0u);
}

TEST(Ledger, EndsAtZeroAfterThreadsAndFlapping) {
  World w;
  w.set({"a", "b"});
  {
    std::vector<std::jthread> loops;
    for (uint64_t seed = 1; seed <= 3; ++seed)
      loops.emplace_back([&w, seed] {
        Rng rng(seed);
        std::vector<Charge> open;
        for (int i = 0; i < 5'000; ++i) {
          const auto snapshot = w.fleet.snapshot();
          const auto& e = snapshot->endpoints[rng.below(snapshot->endpoints.size())];
          open.push_back(w.ledger->charge(*e, 1, static_cast<int64_t>(rng.below(50))));
          if (open.size() > 20) {
            auto& charge = open[rng.below(open.size())];
            w.ledger->release(charge);
            charge = open.back();
            open.pop_back();
          }
        }
        for (auto& charge : open) w.ledger->release(charge);
      });
    for (int i = 0; i < 300; ++i)
      w.set(i % 2 == 0 ? std::vector<std::string>{"b"} : std::vector<std::string>{"a", "b"});
  }
  const auto members = w.fleet.snapshot();
  for (const auto& e : members->endpoints) EXPECT_EQ(w.ledger->load(*e), (Load{0, 0})) << e->id();
  EXPECT_EQ(w.ledger->alarms(), 0u);
}

}  // namespace
}  // namespace llmd::fleet
