#include "testing.h"

#include "schedule/attributes.h"
#include "schedule/moved_hook.h"

#include <gtest/gtest.h>

namespace llmd::plugins {

const plugin::Descriptor& inflight_load_producer();

namespace {

using schedule::EndCause;
using schedule::InFlightLoad;
using schedule::PrefixMatch;
using schedule::UncachedTokens;
using schedule::testing::Harness;
using testing::TokenRequest;

constexpr const char* kName = "inflight-load-producer";

class InflightProducer : public ::testing::Test {
 protected:
  void configure(std::string_view parameters = "") {
    auto& made = harness_.make<schedule::Producer>(inflight_load_producer(), parameters);
    producer_ = &made;
    hook_ = dynamic_cast<const schedule::PreRequest*>(&made);
    response_ = dynamic_cast<const schedule::ResponseHook*>(&made);
    load_ = harness_.wiring.consumes<InFlightLoad>(kName, schedule::Need::kOptional);
    uncached_ = harness_.wiring.consumes<UncachedTokens>(kName, schedule::Need::kOptional);
    for (size_t i = 0; i < harness_.endpoints.size(); ++i) harness_.join(i);
  }
  void produce() { EXPECT_TRUE(producer_->produce(harness_.context)); }
  void charge() { EXPECT_TRUE(hook_->pre_request(harness_.context)); }
  void first_chunk() { response_->on_first_chunk(harness_.context); }
  void end(EndCause cause = EndCause::kNatural) { response_->on_end(harness_.context, cause, {}); }

  /// What is on endpoint i now, read through the dump so that the request stays as it is.
  std::pair<int64_t, int64_t> load(size_t i) {
    const std::string dump = producer_->dump_state();
    const std::string mark = "\"default/e" + std::to_string(i) + "\",\"requests\":";
    const auto at = dump.find(mark);
    if (at == std::string::npos) return {0, 0};
    const std::string rest = dump.substr(at + mark.size());
    return {std::stoll(rest), std::stoll(rest.substr(rest.find("\"tokens\":") + 9))};
  }
  using Load = std::pair<int64_t, int64_t>;  // requests, tokens

  int64_t uncached_of(PrefixMatch match, uint32_t tokens) {
    TokenRequest request(harness_, {tokens});
    harness_.provide<PrefixMatch>("approx-prefix-cache-producer")[0] = match;
    produce();
    return harness_.context.read(uncached_)[0].tokens;
  }

  Harness harness_{2};
  const schedule::Producer* producer_ = nullptr;
  const schedule::PreRequest* hook_ = nullptr;
  const schedule::ResponseHook* response_ = nullptr;
  schedule::Consumed<InFlightLoad> load_;
  schedule::Consumed<UncachedTokens> uncached_;
};

TEST_F(InflightProducer, EstimateVectors) {
  configure();
  EXPECT_EQ(uncached_of({2, 4, 64, 2}, 200), 128);
  EXPECT_EQ(uncached_of({0, 4, 64, 0}, 200), 256);
  EXPECT_EQ(uncached_of({4, 4, 64, 4}, 200), 0);
  EXPECT_EQ(uncached_of({10, 10, 64, 10}, 5000), 4360);
  EXPECT_EQ(uncached_of({0, 0, 0, 0}, 77), 77);
}

TEST_F(InflightProducer, WithoutMatchesEverythingIsUncached) {
  configure();
  TokenRequest request(harness_, {100, 30});
  produce();
  EXPECT_EQ(harness_.context.read(uncached_)[1].tokens, 130);
}

TEST_F(InflightProducer, OutputEstimateVectors) {
  configure("{addEstimatedOutputTokens: true}");
  TokenRequest request(harness_, {101});
  produce();
  EXPECT_EQ(harness_.context.read(uncached_)[0].tokens, 101 + 152);
  TokenRequest capped(harness_, {101});
  capped.view.max_output_tokens = 50;
  produce();
  EXPECT_EQ(harness_.context.read(uncached_)[0].tokens, 101 + 50);
}

TEST_F(InflightProducer, OperatorsCapHoldsToo) {
  configure("{addEstimatedOutputTokens: true, outputRatio: 2, maxEstimatedOutputTokens: 20}");
  TokenRequest request(harness_, {100});
  request.view.max_output_tokens = 50;
  produce();
  EXPECT_EQ(harness_.context.read(uncached_)[0].tokens, 120);
}

TEST_F(InflightProducer, TokensGoAtTheFirstChunkTheRequestAtTheEnd) {
  configure();
  TokenRequest request(harness_, {200});
  produce();
  harness_.choose(0, 1);
  charge();
  EXPECT_EQ(load(1), Load(1, 200));
  first_chunk();
  EXPECT_EQ(load(1), Load(1, 0));
  end();
  EXPECT_EQ(load(1), Load(0, 0));
  end();
  EXPECT_EQ(load(1), Load(0, 0));
}

TEST_F(InflightProducer, AnEndpointThatServedInsteadTakesTheChargeOver) {
  configure();
  TokenRequest request(harness_, {200});
  produce();
  harness_.choose(0, 0);
  charge();
  EXPECT_EQ(load(0), Load(1, 200));
  harness_.choose(0, 1);
  dynamic_cast<const schedule::MovedHook&>(*response_).on_moved(harness_.context);
  EXPECT_EQ(load(0), Load(0, 0));
  EXPECT_EQ(load(1), Load(1, 200));
  end();
  EXPECT_EQ(load(1), Load(0, 0));
}

TEST_F(InflightProducer, ExpectedOutputStaysUntilTheEnd) {
  configure("{addEstimatedOutputTokens: true}");
  TokenRequest request(harness_, {100});
  produce();
  harness_.choose(0, 0);
  charge();
  first_chunk();
  EXPECT_EQ(load(0), Load(1, 250));
  end(EndCause::kClientDisconnect);
  EXPECT_EQ(load(0), Load(0, 0));
}

TEST_F(InflightProducer, PrefillProfileIsDoneAtTheFirstChunk) {
  configure("{addEstimatedOutputTokens: true}");
  TokenRequest request(harness_, {100});
  produce();
  harness_.choose(1, 1, false);
  harness_.choose(0, 0);
  charge();
  EXPECT_EQ(load(1), Load(1, 250));
  first_chunk();
  EXPECT_EQ(load(1), Load(0, 0));
  EXPECT_EQ(load(0), Load(1, 250));
}

TEST_F(InflightProducer, AbortBeforeAnyChunkReleasesEverything) {
  configure();
  TokenRequest request(harness_, {10});
  produce();
  harness_.choose(0, 0);
  charge();
  end(EndCause::kError);
  EXPECT_EQ(load(0), Load(0, 0));
}

TEST_F(InflightProducer, EndWithoutChargeDoesNothing) {
  configure();
  TokenRequest request(harness_, {10});
  first_chunk();
  end();
  EXPECT_EQ(load(0), Load(0, 0));
}

TEST_F(InflightProducer, LaterRequestsSeeTheLoad) {
  configure();
  TokenRequest first(harness_, {200});
  produce();
  harness_.choose(0, 1);
  charge();
  // The debts of the first live in its arena, so the second has a context of its own.
  Arena arena;
  schedule::RequestContext context(arena, harness_.rng, harness_.clock);
  context.columns = arena.array<void*>(Harness::kSlotsMax);
  context.slots = arena.array<void*>(Harness::kSlotsMax);
  context.candidates = harness_.context.candidates;
  ASSERT_TRUE(producer_->produce(context));
  EXPECT_EQ(context.read(load_)[0].requests, 0);
  EXPECT_EQ(context.read(load_)[1].requests, 1);
  EXPECT_EQ(context.read(load_)[1].tokens, 200);
  end();
}

TEST_F(InflightProducer, ReturningEndpointStartsFromZero) {
  configure();
  TokenRequest request(harness_, {200});
  produce();
  harness_.choose(0, 1);
  charge();
  harness_.leave(1);
  const auto before = harness_.endpoints[1];
  harness_.endpoints[1] = std::make_shared<fleet::Endpoint>(before->spec(), before->slot(), 99);
  harness_.join(1);
  EXPECT_EQ(load(1), Load(0, 0));
  end();
  EXPECT_EQ(load(1), Load(0, 0));
}

TEST_F(InflightProducer, GaugesFollowTheLedger) {
  configure();
  TokenRequest request(harness_, {200});
  produce();
  harness_.choose(0, 1);
  harness_.context.priority = -3;
  charge();
  const std::string labels =
      "{endpoint_name=\"e1\",fairness_id=\"tenant\",namespace=\"default\",priority=\"-3\","
      "producer_name=\"inflight-load-producer\"} ";
  const auto shows = [&](const std::string& line) {
    return harness_.metric_registry().render().find(line) != std::string::npos;
  };
  EXPECT_TRUE(shows("llm_d_epp_inflight_requests" + labels + "1\n"));
  EXPECT_TRUE(shows("llm_d_epp_inflight_tokens" + labels + "200\n"));
  first_chunk();
  EXPECT_TRUE(shows("llm_d_epp_inflight_tokens" + labels + "0\n"));
  end();
  EXPECT_TRUE(shows("llm_d_epp_inflight_requests" + labels + "0\n"));
}

}  // namespace
}  // namespace llmd::plugins
