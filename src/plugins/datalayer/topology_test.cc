#include "schedule/attributes.h"
#include "schedule/testing.h"

#include <gtest/gtest.h>

namespace llmd::plugins {
const plugin::Descriptor& topology_extractor();
const plugin::Descriptor& topology_affinity_scorer();
const plugin::Descriptor& topology_affinity_filter();

namespace {

using schedule::Filter;
using schedule::Peer;
using schedule::Scorer;
using schedule::testing::Harness;
using schedule::testing::Labels;
using Doubles = std::vector<double>;
using Kept = std::vector<uint32_t>;

Labels place(std::string host, std::string rack, std::string zone, std::string region) {
  return {{"kubernetes.io/hostname", std::move(host)},
          {"topology.kubernetes.io/rack", std::move(rack)},
          {"topology.kubernetes.io/zone", std::move(zone)},
          {"topology.kubernetes.io/region", std::move(region)}};
}

/// Endpoint 0 is the peer of the request's other stage.
class TopologyTest : public ::testing::Test {
 protected:
  TopologyTest() { harness_.make<plugin::Plugin>(topology_extractor()); }
  void know_peer() { harness_.provide_value<Peer>(schedule::kPeerEndpoint, {0}); }
  Doubles scores() { return harness_.scores(harness_.make<Scorer>(topology_affinity_scorer())); }
  Kept kept(std::string_view parameters = "") {
    return harness_.filtered(harness_.make<Filter>(topology_affinity_filter(), parameters));
  }

  Harness harness_{{place("h1", "r1", "z1", "g1"), place("h1", "r1", "z1", "g1"),
                    place("h2", "r1", "z1", "g1"), place("h3", "r2", "z1", "g1"),
                    place("h4", "r3", "z2", "g1"), place("h5", "r4", "z3", "g2"), Labels{}}};
};

TEST_F(TopologyTest, ScoresTheTightestCommonLevel) {
  know_peer();
  EXPECT_EQ(scores(), (Doubles{1, 1, .2, .05, .02, 0, 0}));
}

TEST_F(TopologyTest, ScoresNothingWithoutPeer) {
  EXPECT_EQ(scores(), Doubles(7, 0));
}

TEST_F(TopologyTest, KeepsTheNearOnes) {
  know_peer();
  EXPECT_EQ(kept(), (Kept{0, 1}));
  EXPECT_EQ(kept("{minAffinity: rack}"), (Kept{0, 1, 2}));
  EXPECT_EQ(kept("{minAffinity: zone}"), (Kept{0, 1, 2, 3}));
  EXPECT_EQ(kept("{minAffinity: region}"), (Kept{0, 1, 2, 3, 4}));
}

TEST_F(TopologyTest, KeepsAllWithoutPeerOrExtractor) {
  EXPECT_EQ(kept().size(), 7u);
  know_peer();
  EXPECT_EQ(kept("{topologyProducerName: other}").size(), 7u);
}

TEST_F(TopologyTest, RefusesUnknownLevels) {
  EXPECT_FALSE(harness_.try_make(topology_affinity_filter(), "{minAffinity: planet}"));
}

TEST(Topology, EmptyValuesAreNoPlace) {
  Harness harness({place("", "", "z", ""), place("", "", "z", "")});
  harness.make<plugin::Plugin>(topology_extractor());
  harness.provide_value<Peer>(schedule::kPeerEndpoint, {0});
  EXPECT_EQ(harness.scores(harness.make<Scorer>(topology_affinity_scorer()))[1], .05);
}

TEST(Topology, KeepsAllWhereNobodyIsNear) {
  Harness harness({Labels{}, place("h", "r", "z", "g"), Labels{}});
  harness.make<plugin::Plugin>(topology_extractor());
  harness.provide_value<Peer>(schedule::kPeerEndpoint, {0});
  EXPECT_EQ(harness.filtered(harness.make<Filter>(topology_affinity_filter())).size(), 3u);
}

TEST(Topology, ReadsTheLabelsItIsTold) {
  Harness harness({Labels{{"node", "a"}}, Labels{{"node", "a"}}});
  harness.make<plugin::Plugin>(topology_extractor(), "{hostnameLabel: node}", "mine");
  harness.provide_value<Peer>(schedule::kPeerEndpoint, {0});
  EXPECT_EQ(harness.scores(harness.make<Scorer>(topology_affinity_scorer(),
                                                "{topologyProducerName: mine}"))[1],
            1);
}

}  // namespace
}  // namespace llmd::plugins
