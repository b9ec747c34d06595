#include "inflight_loads.h"

#include "schedule/attributes.h"
#include "schedule/testing.h"

#include <gtest/gtest.h>

namespace llmd::plugins {
const plugin::Descriptor& concurrency_detector();

namespace {

using schedule::Filter;
using schedule::InFlightLoad;
using schedule::SaturationDetector;
using schedule::testing::Harness;
using Picks = std::vector<uint32_t>;

struct Load {
  int64_t requests = 0;
  int64_t tokens = 0;
  bool known = true;  // false: the ledger has never heard of the endpoint
};
constexpr Load kUnknown = {.known = false};

constexpr const char* kProducer = "inflight-load-producer";

/// A detector over endpoints with these loads in the ledger of `producer`.
class Pool {
 public:
  explicit Pool(const std::vector<Load>& loads, const std::string& parameters = "",
                std::string_view producer = kProducer)
      : harness(loads.size()),
        detector(harness.make<SaturationDetector>(concurrency_detector(), parameters)) {
    const plugin::Context context{producer, harness.state, harness.metric_registry(),
                                  harness.clock};
    in_flight = InflightLoads::of(producer, context);
    for (size_t i = 0; i < loads.size(); ++i) {
      if (!loads[i].known) continue;
      in_flight->on_added(harness.endpoints[i]);
      in_flight->ledger.charge(*harness.endpoints[i], loads[i].requests, loads[i].tokens);
    }
  }
  double saturation() {
    return detector.saturation(harness.context.candidates, harness.clock.now());
  }

  Harness harness;
  const SaturationDetector& detector;
  std::shared_ptr<InflightLoads> in_flight;
};

TEST(ConcurrencyDetector, SaysWhatARequestAdds) {
  constexpr auto kLimits = "maxConcurrency: 10, maxTokenConcurrency: 1000";
  const auto step = [&](std::string_view mode) {
    Pool pool({{}, {}},
              std::string("{concurrencyMode: ") + std::string(mode) + ", " + kLimits + "}");
    return pool.detector.step(2, 500);
  };
  EXPECT_DOUBLE_EQ(step("requests"), .05);
  EXPECT_DOUBLE_EQ(step("tokens"), .25);
  EXPECT_DOUBLE_EQ(step("hybrid"), .25);
}

TEST(ConcurrencyDetector, IsTheLoadByTheCapacity) {
  const struct {
    std::vector<Load> loads;
    std::string limits;
    double requests, tokens, hybrid;
  } cases[] = {
      {{{50, 200'000}, {100, 0}}, "", .75, .1, .75},
      {{{10, 1000}, {0, 9000}}, ", maxConcurrency: 10, maxTokenConcurrency: 10000", .5, .5, .95},
      {{{120, 1'500'000}}, "", 1.2, 1.5, 1.5},
      {{{30, 0}, {0, 0}, kUnknown}, "", .1, 0, .1},
      {{{99, 999'999}}, "", .99, .999999, .999999},
  };
  for (size_t i = 0; i < std::size(cases); ++i) {
    const auto saturation = [&](const std::string& mode) {
      return Pool(cases[i].loads, "{concurrencyMode: " + mode + cases[i].limits + "}").saturation();
    };
    EXPECT_NEAR(saturation("requests"), cases[i].requests, 1e-12) << "case " << i;
    EXPECT_NEAR(saturation("tokens"), cases[i].tokens, 1e-12) << "case " << i;
    EXPECT_NEAR(saturation("hybrid"), cases[i].hybrid, 1e-12) << "case " << i;
  }
}

TEST(ConcurrencyDetector, IsSaturatedExactlyWhenThePoolIsFull) {
  for (int64_t max = 1; max < 200; ++max) {
    const std::string parameters = "{maxConcurrency: " + std::to_string(max) + "}";
    EXPECT_EQ(Pool({{max - 1, 0}, {1, 0}, {max, 0}, {max, 0}}, parameters).saturation(), 0.75);
    EXPECT_EQ(Pool({{max - 1, 0}, {max + 1, 0}, {max, 0}}, parameters).saturation(), 1.0);
    EXPECT_LT(Pool({{max - 1, 0}, {max, 0}, {max, 0}}, parameters).saturation(), 1.0);
  }
}

TEST(ConcurrencyDetector, APoolWithoutEndpointsOrCapacityIsSaturated) {
  EXPECT_EQ(Pool({}).saturation(), 1);
  EXPECT_EQ(Pool({{0, 0}}, "{maxConcurrency: 0}").saturation(), 1);
  EXPECT_EQ(Pool({{0, 0}}, "{concurrencyMode: hybrid, maxTokenConcurrency: 0}").saturation(), 1);
  EXPECT_EQ(Pool({{0, 0}}, "{maxTokenConcurrency: 0}").saturation(), 0);
}

TEST(ConcurrencyDetector, SkipsCandidatesWithoutAnEndpoint) {
  Pool pool({{30, 0}, {0, 0}});
  pool.harness.context.candidates[1].endpoint = nullptr;
  EXPECT_EQ(pool.saturation(), .3);
}

TEST(ConcurrencyDetector, FollowsTheLedgerAtOnce) {
  Pool pool({{0, 0}}, "{maxConcurrency: 4}");
  auto charge = pool.in_flight->ledger.charge(*pool.harness.endpoints[0], 3, 0);
  EXPECT_EQ(pool.saturation(), .75);
  pool.in_flight->ledger.release(charge);
  EXPECT_EQ(pool.saturation(), 0);
}

TEST(ConcurrencyDetector, ReadsTheProducerThatItIsTold) {
  EXPECT_EQ(Pool({{50, 0}}, "{inFlightLoadProducerName: mine}", "mine").saturation(), .5);
  EXPECT_EQ(Pool({{50, 0}}, "{inFlightLoadProducerName: mine}").saturation(), 0);
}

Picks filtered(const std::vector<Load>& loads, std::string_view parameters = "") {
  Harness harness(loads.size());
  const auto column = harness.provide<InFlightLoad>(kProducer);
  for (size_t i = 0; i < loads.size(); ++i)
    column[i] = {.tokens = loads[i].tokens, .requests = loads[i].requests};
  return harness.filtered(harness.make<Filter>(concurrency_detector(), parameters));
}

TEST(ConcurrencyDetector, FiltersFullEndpoints) {
  EXPECT_EQ(filtered({{99, 2'000'000}, {100, 0}, {101, 0}}), Picks{0});
  EXPECT_EQ(filtered({{99, 0}, {200, 999'999}, {0, 1'000'000}}, "{concurrencyMode: tokens}"),
            (Picks{0, 1}));
  EXPECT_EQ(filtered({{99, 999'999}, {100, 0}, {0, 1'000'000}}, "{concurrencyMode: hybrid}"),
            Picks{0});
}

TEST(ConcurrencyDetector, FiltersWithHeadroom) {
  EXPECT_EQ(filtered({{59, 0}, {60, 0}}, "{maxConcurrency: 50, headroom: 0.2}"), Picks{0});
  EXPECT_EQ(filtered({{4, 0}, {5, 0}}, "{maxConcurrency: 5, headroom: 0.19}"), Picks{0});
}

TEST(ConcurrencyDetector, KeepsNobodyWhenAllAreFull) {
  EXPECT_EQ(filtered({{100, 0}, {100, 0}}), Picks{});
}

TEST(ConcurrencyDetector, KeepsEveryoneWhenNobodyCounted) {
  Harness harness(2);
  EXPECT_EQ(harness.filtered(harness.make<Filter>(concurrency_detector())), (Picks{0, 1}));
}

TEST(ConcurrencyDetector, ChecksItsParameters) {
  Harness harness(1);
  for (const auto* bad : {"{maxConcurrency: -1}", "{maxTokenConcurrency: -1}", "{headroom: -0.1}",
                          "{concurrencyMode: bytes}", "{unknown: 1}"})
    EXPECT_FALSE(harness.try_make(concurrency_detector(), bad)) << bad;
}

}  // namespace
}  // namespace llmd::plugins
