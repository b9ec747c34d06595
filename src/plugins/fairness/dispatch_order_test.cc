#include "flow/queues.h"
#include "flow/testing.h"
#include "schedule/testing.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace llmd::plugins {
const plugin::Descriptor& fcfs_ordering_policy();
const plugin::Descriptor& edf_ordering_policy();
const plugin::Descriptor& slo_deadline_ordering_policy();
const plugin::Descriptor& global_strict_fairness_policy();
const plugin::Descriptor& round_robin_fairness_policy();
const plugin::Descriptor& token_fairness_policy();
const plugin::Descriptor& program_aware_fairness();

namespace {

using namespace std::chrono_literals;
using flow::testing::at;

struct Arrival {
  int64_t ms;
  std::string id;
  int32_t priority = 0;
  int64_t slo_ms = -1;  // none
  Nanos ttl = 60s;
  int64_t tokens = 1;
};

/// Queues whose bands all have the same policies. The flow of a request is the first letter of its
/// id, in upper case, unless the id says "flow/id".
class DispatchOrder : public ::testing::Test {
 protected:
  using Policy = const plugin::Descriptor& (*)();

  std::string order(Policy fairness, Policy ordering, const std::vector<Arrival>& arrivals,
                    std::string_view parameters = "") {
    harness_.emplace(0);
    flow::testing::Policies policies;
    flow::Settings settings = policies.settings();
    const auto& order = harness_->make<flow::OrderingPolicy>(ordering());
    const auto& fair = harness_->make<flow::FairnessPolicy>(fairness(), parameters);
    for (auto& band : settings.bands) band.ordering = &order, band.fairness = &fair;
    flow::Queues queues;
    queues.configure(settings, at(0s));
    for (const auto& a : arrivals) add(queues, a);
    std::string out;
    for (const auto& band : queues.bands())
      while (flow::Waiter* next = queues.first(*band, at(10s))) {
        queues.dispatch(*next, at(10s));
        const auto found = std::ranges::find(kept_, next, [](const auto& k) { return k.get(); });
        out += (out.empty() ? "" : " ") + names_[static_cast<size_t>(found - kept_.begin())];
      }
    return out;
  }

  void add(flow::Queues& queues, const Arrival& a) {
    const auto when = at(std::chrono::milliseconds(a.ms));
    const size_t slash = a.id.find('/');
    std::string flow = a.id.substr(0, slash == a.id.npos ? 1 : slash);
    if (slash == a.id.npos) flow[0] = static_cast<char>(std::toupper(flow[0]));
    auto one = flow::testing::waiter(when, flow, a.priority);
    if (a.slo_ms >= 0)
      one->deadline = (when + std::chrono::milliseconds(a.slo_ms)).time_since_epoch().count();
    one->ttl = a.ttl;
    one->tokens = a.tokens;
    queues.enqueue(*one, when);
    kept_.push_back(std::move(one));
    names_.push_back(slash == a.id.npos ? a.id : a.id.substr(slash + 1));
  }

  std::optional<schedule::testing::Harness> harness_;
  std::vector<std::unique_ptr<flow::Waiter>> kept_;
  std::vector<std::string> names_;
};

const std::vector<Arrival> kVector = {{0, "a1"},         {1, "a2", 0, 500},   {1, "b1", 0, 300},
                                      {3, "a3", 0, 100}, {4, "c1"},           {5, "b2"},
                                      {6, "h1", 10},     {7, "b/n1", -1, 10}, {8, "h2", 10}};
/// The vector's flow of h1 and h2 is A, of n1 B.
std::vector<Arrival> vector() {
  auto arrivals = kVector;
  arrivals[6].id = "A/h1";
  arrivals[7].id = "B/n1";
  arrivals[8].id = "A/h2";
  return arrivals;
}

TEST_F(DispatchOrder, OfGlobalStrict) {
  EXPECT_EQ(order(global_strict_fairness_policy, fcfs_ordering_policy, vector()),
            "h1 h2 a1 a2 b1 a3 c1 b2 n1");
  EXPECT_EQ(order(global_strict_fairness_policy, edf_ordering_policy, vector()),
            "h1 h2 a1 a2 b1 a3 c1 b2 n1");
  EXPECT_EQ(order(global_strict_fairness_policy, slo_deadline_ordering_policy, vector()),
            "h1 h2 a3 b1 a2 a1 c1 b2 n1");
}

TEST_F(DispatchOrder, OfRoundRobin) {
  EXPECT_EQ(order(round_robin_fairness_policy, fcfs_ordering_policy, vector()),
            "h1 h2 a1 b1 c1 a2 b2 a3 n1");
  EXPECT_EQ(order(round_robin_fairness_policy, edf_ordering_policy, vector()),
            "h1 h2 a1 b1 c1 a2 b2 a3 n1");
  EXPECT_EQ(order(round_robin_fairness_policy, slo_deadline_ordering_policy, vector()),
            "h1 h2 a3 b1 c1 a2 b2 a1 n1");
}

TEST_F(DispatchOrder, OfDeadlinesThatClientsSet) {
  const std::vector<Arrival> arrivals = {{0, "a1", 0, -1, 5000ms},
                                         {1, "b1", 0, -1, 1000ms},
                                         {2, "a2", 0, -1, 0ms},
                                         {3, "a3", 0, -1, 2000ms},
                                         {4, "b2", 0, -1, 900ms}};
  EXPECT_EQ(order(global_strict_fairness_policy, edf_ordering_policy, arrivals), "b2 b1 a3 a1 a2");
  EXPECT_EQ(order(round_robin_fairness_policy, edf_ordering_policy, arrivals), "a3 b2 a1 b1 a2");
}

TEST_F(DispatchOrder, OfSharesInTokens) {
  // Two of b's are as much as one of a's.
  EXPECT_EQ(order(token_fairness_policy, fcfs_ordering_policy,
                  {{0, "a1", 0, -1, 60s, 100},
                   {1, "b1", 0, -1, 60s, 50},
                   {2, "a2", 0, -1, 60s, 100},
                   {3, "b2", 0, -1, 60s, 50},
                   {4, "b3", 0, -1, 60s, 50},
                   {5, "b4", 0, -1, 60s, 50}}),
            "b1 a1 b2 b3 a2 b4");
}

TEST_F(DispatchOrder, GivesEqualTokensToManyTenants) {
  constexpr size_t kTenants = 100;
  harness_.emplace(0);
  flow::testing::Policies policies;
  flow::Settings settings = policies.settings();
  const auto& fair = harness_->make<flow::FairnessPolicy>(token_fairness_policy());
  for (auto& band : settings.bands) band.fairness = &fair;
  flow::Queues queues;
  queues.configure(settings, at(0s));
  Rng rng(1);
  // Tenant t's requests are up to 64 * (2 + t mod 8) tokens long.
  const auto add = [&](size_t tenant) {
    auto& one = *kept_.emplace_back(flow::testing::waiter(at(1s), "t" + std::to_string(tenant)));
    one.tokens = static_cast<int64_t>(64 + rng.below(64 * (1 + tenant % 8)));
    queues.enqueue(one, at(1s));
  };
  for (size_t tenant = 0; tenant < kTenants; ++tenant) add(tenant), add(tenant);
  std::vector<double> served(kTenants);
  double total = 0;
  for (int i = 0; i < 10'000; ++i) {
    flow::Waiter* next = queues.first(*queues.bands()[1], at(1s));
    const auto tenant = static_cast<size_t>(std::stoi(next->fairness_id.substr(1)));
    served[tenant] += static_cast<double>(next->tokens);
    total += static_cast<double>(next->tokens);
    queues.dispatch(*next, at(1s));
    add(tenant);
  }
  for (const double tokens : served) EXPECT_NEAR(tokens * kTenants / total, 1, 0.02);
  for (auto& one : kept_)
    if (one->flow) queues.remove(*one, at(1s));
}

TEST_F(DispatchOrder, OfWeightedShares) {
  EXPECT_EQ(order(token_fairness_policy, fcfs_ordering_policy,
                  {{0, "a1", 0, -1, 60s, 100},
                   {1, "a2", 0, -1, 60s, 100},
                   {2, "a3", 0, -1, 60s, 100},
                   {3, "b1", 0, -1, 60s, 100},
                   {4, "b2", 0, -1, 60s, 100}},
                  "{weights: [{fairnessId: A, weight: 2}]}"),
            "a1 b1 a2 a3 b2");
}

TEST_F(DispatchOrder, OfProgramsByTheirWait) {
  // Nobody has been served: the longest wait of a first request decides.
  EXPECT_EQ(order(program_aware_fairness, fcfs_ordering_policy,
                  {{5, "b1"}, {0, "a1"}, {1, "a2"}, {3, "c1"}}),
            "a1 a2 c1 b1");
}

}  // namespace
}  // namespace llmd::plugins
