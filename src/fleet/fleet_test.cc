#include "fleet/fleet.h"

#include "base/limits.h"
#include "base/rng.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <thread>

namespace llmd::fleet {
namespace {

EndpointSpec spec(std::string name, uint16_t port = 8000,
                  std::vector<std::pair<std::string, std::string>> labels = {}) {
  return {
      .name = std::move(name), .address = "10.0.0.1", .port = port, .labels = std::move(labels)};
}

EndpointPtr find(const Fleet& fleet, std::string_view id) {
  const auto members = fleet.snapshot();
  for (const auto& endpoint : members->endpoints)
    if (endpoint->id() == id) return endpoint;
  return nullptr;
}

/// Writes down what it is told.
struct Journal final : MembershipListener {
  std::vector<std::string> lines;
  void on_added(const EndpointPtr& e) override { lines.push_back("+" + e->id()); }
  void on_removed(const EndpointPtr& e) override { lines.push_back("-" + e->id()); }
  std::vector<std::string> take() { return std::exchange(lines, {}); }
};

using Lines = std::vector<std::string>;

TEST(Fleet, StartsEmpty) {
  const Fleet fleet;
  EXPECT_TRUE(fleet.snapshot()->endpoints.empty());
}

TEST(Fleet, ListsEndpointsById) {
  Fleet fleet;
  fleet.set({spec("b"), spec("a"), spec("c")});
  Lines ids;
  const auto members = fleet.snapshot();
  for (const auto& endpoint : members->endpoints) ids.push_back(endpoint->id());
  EXPECT_EQ(ids, (Lines{"default/a", "default/b", "default/c"}));
}

TEST(Fleet, KeepsIdentityOfTheUnchanged) {
  Fleet fleet;
  fleet.set({spec("a"), spec("b")});
  const auto before = find(fleet, "default/b");
  fleet.set({spec("b"), spec("c")});
  EXPECT_EQ(find(fleet, "default/b"), before);
}

TEST(Fleet, ChangesNothingForTheSameMembership) {
  Fleet fleet;
  fleet.set({spec("a", 1, {{"x", "1"}, {"b", "2"}})});
  const auto before = fleet.snapshot();
  fleet.set({spec("a", 1, {{"b", "2"}, {"x", "1"}})});
  EXPECT_EQ(fleet.snapshot(), before);
}

TEST(Fleet, RelabelledEndpointKeepsIdentityAndMetrics) {
  Fleet fleet;
  auto journal = std::make_shared<Journal>();
  const auto token = fleet.listen(journal);
  fleet.set({spec("a")});
  const auto before = find(fleet, "default/a");
  before->metrics.store({.waiting_queue_size = 9});
  journal->take();
  fleet.set({spec("a", 8000, {{"role", "decode"}})});
  const auto after = find(fleet, "default/a");
  EXPECT_NE(after, before);
  EXPECT_EQ(after->slot(), before->slot());
  EXPECT_EQ(after->generation(), before->generation());
  EXPECT_EQ(after->metrics.load().waiting_queue_size, 9);
  EXPECT_EQ(*after->label("role"), "decode");
  EXPECT_EQ(journal->take(), (Lines{"+default/a"}));
}

TEST(Fleet, MovedEndpointIsANewGeneration) {
  Fleet fleet;
  auto journal = std::make_shared<Journal>();
  const auto token = fleet.listen(journal);
  fleet.set({spec("a", 1)});
  const auto first = find(fleet, "default/a")->generation();
  fleet.set({spec("a", 2)});
  EXPECT_GT(find(fleet, "default/a")->generation(), first);
  EXPECT_EQ(journal->take(), (Lines{"+default/a", "-default/a", "+default/a"}));
}

TEST(Fleet, EndpointReachedInAnotherWayIsANewGeneration) {
  Fleet fleet;
  EndpointSpec a = spec("a");
  fleet.set({a});
  uint64_t before = find(fleet, "default/a")->generation();
  const auto changes = [&] {
    fleet.set({a});
    const uint64_t now = find(fleet, "default/a")->generation();
    return std::exchange(before, now) != now;
  };
  a.scheme = "https";
  EXPECT_TRUE(changes());
  a.server_name = "a.test";
  EXPECT_TRUE(changes());
  EXPECT_FALSE(changes());
}

TEST(Fleet, ReturningEndpointReusesSlotsButNotGenerations) {
  Fleet fleet;
  fleet.set({spec("a"), spec("b")});
  const auto first = find(fleet, "default/a");
  fleet.set({spec("b")});
  fleet.set({spec("a"), spec("b")});
  const auto second = find(fleet, "default/a");
  EXPECT_EQ(second->slot(), first->slot());
  EXPECT_GT(second->generation(), first->generation());
}

TEST(Fleet, LaterOfTwoSpecsWithOneIdWins) {
  Fleet fleet;
  fleet.set({spec("a", 1), spec("a", 2)});
  ASSERT_EQ(fleet.snapshot()->endpoints.size(), 1u);
  EXPECT_EQ(find(fleet, "default/a")->spec().port, 2);
}

TEST(Fleet, LaterOfTwoLabelsWithOneKeyWins) {
  Fleet fleet;
  fleet.set({spec("a", 1, {{"z", "1"}, {"k", "old"}, {"k", "new"}})});
  const auto endpoint = find(fleet, "default/a");
  EXPECT_EQ(*endpoint->label("k"), "new");
  EXPECT_EQ(endpoint->spec().labels.size(), 2u);
}

TEST(Fleet, RefusesAndCountsEndpointsBeyondTheLimit) {
  Fleet fleet;
  std::vector<EndpointSpec> specs;
  for (size_t i = 0; i < limits::kEndpointsMax; ++i) specs.push_back(spec("b" + std::to_string(i)));
  fleet.set(specs);
  EXPECT_EQ(fleet.refused(), 0u);
  specs.push_back(spec("a0"));
  specs.push_back(spec("a1"));
  fleet.set(specs);
  EXPECT_EQ(fleet.refused(), 2u);
  EXPECT_EQ(fleet.snapshot()->endpoints.size(), limits::kEndpointsMax);
  EXPECT_EQ(find(fleet, "default/a0"), nullptr) << "those that were there stay";
  fleet.set({spec("a0"), spec("b0")});
  EXPECT_NE(find(fleet, "default/a0"), nullptr);
}

TEST(Fleet, TellsAListenerAboutThosePresent) {
  Fleet fleet;
  fleet.set({spec("a"), spec("b")});
  auto journal = std::make_shared<Journal>();
  auto token = fleet.listen(journal);
  EXPECT_EQ(journal->take(), (Lines{"+default/a", "+default/b"}));
  token.reset();
  fleet.set({});
  EXPECT_TRUE(journal->take().empty());
}

TEST(Fleet, RemovesBeforeItAdds) {
  Fleet fleet;
  auto journal = std::make_shared<Journal>();
  const auto token = fleet.listen(journal);
  fleet.set({spec("b")});
  journal->take();
  fleet.set({spec("a")});
  EXPECT_EQ(journal->take(), (Lines{"-default/b", "+default/a"}));
}

TEST(Fleet, SubscribersGetEachNewSnapshot) {
  Fleet fleet;
  std::vector<uint64_t> versions;
  auto token = fleet.subscribe([&](const SnapshotPtr& snapshot) {
    EXPECT_EQ(fleet.snapshot(), snapshot);
    versions.push_back(snapshot->version);
  });
  fleet.set({spec("a")});
  fleet.set({spec("a")});
  fleet.set({});
  EXPECT_EQ(versions, (std::vector<uint64_t>{1, 2}));
  token.reset();
  fleet.set({spec("a")});
  EXPECT_EQ(versions.size(), 2u);
}

TEST(Fleet, TokensMayOutliveIt) {
  std::shared_ptr<void> listening, subscribed;
  {
    Fleet fleet;
    listening = fleet.listen(std::make_shared<Journal>());
    subscribed = fleet.subscribe([](const SnapshotPtr&) {});
  }
}

TEST(Fleet, SnapshotsMayBeTakenWhileItChanges) {
  Fleet fleet;
  std::jthread reader([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      const auto members = fleet.snapshot();
      for (const auto& endpoint : members->endpoints) EXPECT_FALSE(endpoint->id().empty());
    }
  });
  for (uint16_t i = 1; i < 500; ++i) fleet.set({spec("a", i), spec("b" + std::to_string(i % 7))});
}

TEST(Fleet, AgreesWithAModelUnderRandomChanges) {
  constexpr uint64_t kSeed = 20;
  Rng rng(kSeed);
  Fleet fleet;
  std::map<std::string, EndpointSpec> model;
  std::map<std::string, std::pair<uint32_t, uint64_t>> identities;
  std::set<uint64_t> generations_seen;
  for (int round = 0; round < 500; ++round) {
    std::map<std::string, EndpointSpec> wanted;
    std::vector<EndpointSpec> specs;
    for (int i = 0; i < 12; ++i) {
      if (rng.below(3) == 0) continue;
      auto s = spec("e" + std::to_string(i), static_cast<uint16_t>(1 + rng.below(2)),
                    {{"role", std::to_string(rng.below(2))}});
      wanted["default/" + s.name] = s;
      specs.push_back(std::move(s));
    }
    fleet.set(specs);
    const auto snapshot = fleet.snapshot();
    ASSERT_EQ(snapshot->endpoints.size(), wanted.size());
    std::set<uint32_t> slots;
    std::map<std::string, std::pair<uint32_t, uint64_t>> now;
    for (const auto& e : snapshot->endpoints) {
      ASSERT_EQ(e->spec(), wanted.at(e->id()));
      EXPECT_TRUE(slots.insert(e->slot()).second);
      EXPECT_LT(e->slot(), 12u) << "slots are reused";
      const auto old = model.find(e->id());
      const bool same = old != model.end() && old->second.port == e->spec().port;
      if (same)
        EXPECT_EQ(identities.at(e->id()), std::pair(e->slot(), e->generation()))
            << "seed " << kSeed;
      else
        EXPECT_TRUE(generations_seen.insert(e->generation()).second) << "seed " << kSeed;
      now[e->id()] = {e->slot(), e->generation()};
    }
    model = std::move(wanted);
    identities = std::move(now);
  }
}

}  // namespace
}  // namespace llmd::fleet
