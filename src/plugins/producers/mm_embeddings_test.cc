#include "schedule/testing.h"

#include <gtest/gtest.h>

namespace llmd::plugins {
const plugin::Descriptor& mm_embeddings_cache_producer();
const plugin::Descriptor& mm_embeddings_cache_scorer();

namespace {

using schedule::PreRequest;
using schedule::Producer;
using schedule::Scorer;
using schedule::testing::Harness;
using Doubles = std::vector<double>;

class MediaTest : public ::testing::Test {
 protected:
  void configure(std::string_view parameters = "") {
    producer_ = &harness_.make<Producer>(mm_embeddings_cache_producer(), parameters);
    scorer_ = &harness_.make<Scorer>(mm_embeddings_cache_scorer());
  }
  /// A request with a text and media of these tokens.
  void request(const std::vector<uint32_t>& media) {
    harness_.fresh_request();
    pieces_ = {{.text = "see: ", .bytes = 5}};
    for (const uint32_t token : media)
      pieces_.push_back({.kind = request::Piece::Kind::kPlaceholder, .token = token, .count = 4});
    prompt_.pieces = pieces_;
    view_.prompts = {&prompt_, 1};
    harness_.context.request = &view_;
    EXPECT_TRUE(producer_->produce(harness_.context));
  }
  void serve(const std::vector<uint32_t>& media, uint32_t target) {
    request(media);
    harness_.choose(0, target);
    EXPECT_TRUE(dynamic_cast<const PreRequest*>(producer_)->pre_request(harness_.context));
  }
  Doubles scores_for(const std::vector<uint32_t>& media) {
    request(media);
    return harness_.scores(*scorer_);
  }

  Harness harness_{3};
  const Producer* producer_ = nullptr;
  const Scorer* scorer_ = nullptr;
  std::vector<request::Piece> pieces_;
  request::Prompt prompt_;
  request::RequestView view_;
};

TEST_F(MediaTest, RatesTheShareThatWasSentThere) {
  configure();
  EXPECT_EQ(scores_for({1, 2}), (Doubles{0, 0, 0}));
  serve({1, 2}, 0);
  serve({2, 3}, 1);
  EXPECT_EQ(scores_for({1, 2, 3, 4}), (Doubles{.5, .5, 0}));
  EXPECT_EQ(scores_for({1}), (Doubles{1, 0, 0}));
}

TEST_F(MediaTest, CountsEachItemOnce) {
  configure();
  serve({1}, 0);
  EXPECT_EQ(scores_for({1, 1, 1, 2}), (Doubles{.5, 0, 0}));
}

TEST_F(MediaTest, SaysNothingOfTextOnly) {
  configure();
  serve({}, 0);
  EXPECT_EQ(scores_for({}), (Doubles{0, 0, 0}));
}

TEST_F(MediaTest, ForgetsWhatNoLongerFits) {
  configure("{cacheSizeInMBPerServer: 4}");  // two items
  serve({1}, 0);
  serve({2}, 0);
  serve({3}, 0);
  EXPECT_EQ(scores_for({1}), (Doubles{0, 0, 0}));
  EXPECT_EQ(scores_for({2, 3}), (Doubles{1, 0, 0}));
}

TEST_F(MediaTest, ForgetsEndpointsThatAreGone) {
  configure();
  for (size_t i = 0; i < 3; ++i) harness_.join(i);
  serve({1}, 0);
  EXPECT_EQ(producer_->dump_state(),
            R"({"podList":["default/e0","default/e1","default/e2"],"totalKnownPods":3,)"
            R"("pods":[{"pod":"default/e0","items":1}],"totalPods":1,"maxPods":100})");
  harness_.leave(0);
  EXPECT_EQ(scores_for({1}), (Doubles{0, 0, 0}));
}

TEST_F(MediaTest, CountsByModality) {
  configure();
  for (size_t i = 0; i < 3; ++i) harness_.join(i);
  serve({1, 2}, 0);
  request({1, 2, 3});
  const request::MediaHash hashes[] = {{request::Modality::kVideo, "v"},
                                       {request::Modality::kImage, "i"}};
  prompt_ = {.token_ids = {}, .media = hashes, .pieces = {}};
  harness_.fresh_request();
  harness_.context.request = &view_;
  EXPECT_TRUE(producer_->produce(harness_.context));
  const auto shows = [&](std::string_view line) {
    return harness_.metric_registry().render().find(line) != std::string::npos;
  };
  const std::string plugin =
      "plugin_name=\"mm-embeddings-cache-producer\",plugin_type=\"mm-embeddings-cache-producer\"";
  EXPECT_TRUE(shows("encoder_cache_queries_total{modality=\"image\"," + plugin + "} 6\n"));
  EXPECT_TRUE(shows("encoder_cache_queries_total{modality=\"video\"," + plugin + "} 1\n"));
  const std::string hits = "encoder_cache_hits_total{modality=\"image\"," + plugin + ",pod=";
  EXPECT_TRUE(shows(hits + "\"default/e0\"} 2\n"));
  EXPECT_FALSE(shows(hits + "\"default/e1\"}"));
  harness_.leave(0);
  EXPECT_FALSE(shows(hits));
}

TEST_F(MediaTest, RemembersMediaThatCameAsHashes) {
  configure();
  const request::MediaHash hashes[] = {{request::Modality::kAudio, "a"},
                                       {request::Modality::kImage, "", 3, 10}};
  prompt_ = {.token_ids = {}, .media = hashes, .pieces = {}};
  view_.prompts = {&prompt_, 1};
  for (const Doubles& expected : {Doubles{0, 0, 0}, Doubles{0, 1, 0}}) {
    harness_.fresh_request();
    harness_.context.request = &view_;
    EXPECT_TRUE(producer_->produce(harness_.context));
    EXPECT_EQ(harness_.scores(*scorer_), expected);
    harness_.choose(0, 1);
    EXPECT_TRUE(dynamic_cast<const PreRequest*>(producer_)->pre_request(harness_.context));
  }
}

TEST_F(MediaTest, RefusesTheParameterOfOldSamples) {
  EXPECT_FALSE(harness_.try_make(mm_embeddings_cache_producer(), "{cacheSizeInMB: 2048}"));
}

}  // namespace
}  // namespace llmd::plugins
