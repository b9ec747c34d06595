#include "session_fixture.h"
#include "session_states.h"

#include <string>

namespace llmd::route {
namespace {

TEST_F(SessionTest, ForwardsAndEndsOnce) {
  request();
  ASSERT_EQ(forwarded_, std::vector<std::string>{"a"});
  session_->on_response_headers(200, {});
  session_->on_response_body("x");
  session_->on_response_body("y");
  session_->on_response_end();
  EXPECT_FALSE(session_->active());
  EXPECT_EQ(hooks_->charged, 1);
  EXPECT_EQ(hooks_->first_chunks, 1);
  EXPECT_EQ(hooks_->ends, std::vector{EndCause::kNatural});
  EXPECT_TRUE(replies_.empty());
}

TEST_F(SessionTest, GoesOnByItselfAfterAWait) {
  auto pipeline = testing::trivial_pipeline(testing::Body::kIsTheModel);
  const auto* patient = own(*pipeline, std::make_unique<PatientProducer>());
  pipeline->producers.push_back({patient, {}});
  director_.set_pipeline(pipeline);
  executor_.run();
  request();
  EXPECT_TRUE(forwarded_.empty());
  ASSERT_EQ(alarms_.size(), 2u);  // the wait and the producer's deadline
  EXPECT_EQ(alarms_.front().first, std::chrono::milliseconds(20));
  fire_alarm();
  EXPECT_EQ(forwarded_, std::vector<std::string>{"a"});
  fire_alarm();  // the deadline comes late and changes nothing
  EXPECT_EQ(patient->calls, 2);
}

TEST_F(SessionTest, MakesARequestIdWhenThereIsNone) {
  request();
  ASSERT_EQ(set_headers_.size(), 1u);
  EXPECT_EQ(set_headers_[0].first, "x-request-id");
  EXPECT_EQ(set_headers_[0].second.size(), 36u);
}

TEST_F(SessionTest, KeepsTheClientsRequestId) {
  const HeaderField fields[] = {{"X-Request-Id", "mine"}};
  session_->on_headers("/v1/completions", HeaderView(fields), false);
  session_->on_end("m");
  EXPECT_TRUE(set_headers_.empty());
  EXPECT_EQ(session_->request_id(), "mine");
}

TEST_F(SessionTest, ReplacesIdsThatAreLongOrNotVisible) {
  const std::string longest(128, 'a'), too_long(129, 'a');
  for (const auto& [id, kept] : {std::pair{longest, true},
                                 {too_long, false},
                                 {std::string("two words"), false},
                                 {std::string("tab\t"), false},
                                 {std::string("\xc3\xa9"), false}}) {
    const HeaderField fields[] = {{"x-request-id", id}};
    session_->on_headers("/v1/completions", HeaderView(fields), false);
    session_->on_end("m");
    EXPECT_EQ(session_->request_id() == id, kept) << id;
    EXPECT_EQ(set_headers_.empty(), kept) << id;
    session_->on_abort();
  }
}

TEST_F(SessionTest, NamesTheRequestItRefuses) {
  const HeaderField fields[] = {{"X-Request-Id", "mine"}};
  session_->on_headers("/v1/completions", HeaderView(fields), false);
  session_->on_end("bad");
  EXPECT_EQ(reply_id_, "mine");
  request("bad");
  EXPECT_EQ(reply_id_.size(), 36u);
}

TEST_F(SessionTest, RefusesWithTheContractsTexts) {
  request("bad");
  EXPECT_EQ(replies_.back(), "400 inference error: BadRequest - unreadable");
  request("");
  EXPECT_EQ(replies_.back(), "400 inference error: BadRequest - model not found in request body");
  set_fleet({});
  request();
  EXPECT_EQ(replies_.back(),
            "503 inference error: ServiceUnavailable - failed to find endpoint candidates for "
            "serving the request "
            "[rejected-no-endpoints]");
  session_->on_headers("/v1/models", {}, true);
  EXPECT_EQ(replies_.back(), "500 inference error: Internal - no pods available in datastore");
  EXPECT_EQ(hooks_->charged, 0);
  EXPECT_TRUE(hooks_->ends.empty());
  EXPECT_FALSE(session_->active());
}

TEST_F(SessionTest, RoutesRequestsWithoutABodyToAnyEndpoint) {
  session_->on_headers("/v1/models", {}, true);
  EXPECT_EQ(forwarded_, std::vector<std::string>{"a"});
  session_->on_response_headers(200, {});
  session_->on_response_end();
  EXPECT_TRUE(hooks_->ends.empty());
}

TEST_F(SessionTest, ResumesASuspendedProducer) {
  producer_->ready = false;
  request();
  EXPECT_TRUE(forwarded_.empty());
  producer_->ready = true;
  producer_->resume();
  EXPECT_TRUE(forwarded_.empty()) << "a resume runs on the loop, not in the caller";
  executor_.run();
  EXPECT_EQ(forwarded_.size(), 1u);
}

TEST_F(SessionTest, GoesOnWithoutAProducerThatIsLate) {
  producer_->ready = false;
  request();
  ASSERT_EQ(alarms_.size(), 1u);
  EXPECT_EQ(alarms_[0].first, std::chrono::milliseconds(400));
  fire_alarm();
  EXPECT_EQ(forwarded_.size(), 1u);
  const int calls = producer_->calls;
  producer_->ready = true;
  producer_->resume();
  executor_.run();
  EXPECT_EQ(forwarded_.size(), 1u) << "a late result is discarded";
  EXPECT_EQ(producer_->calls, calls);
}

TEST_F(SessionTest, DiscardsAResumeOfAnEarlierRequest) {
  producer_->ready = false;
  request();
  const auto stale = producer_->resume;
  session_->on_abort();
  request();
  stale();
  executor_.run();
  EXPECT_TRUE(forwarded_.empty());
  EXPECT_TRUE(session_->active());
}

TEST_F(SessionTest, SurvivesAResumeAfterItsDestruction) {
  producer_->ready = false;
  request();
  session_.reset();
  producer_->resume();
  executor_.run();
  EXPECT_TRUE(forwarded_.empty());
}

TEST_F(SessionTest, AbortIsLegalWhileSuspended) {
  producer_->ready = false;
  request();
  session_->on_abort();
  EXPECT_FALSE(session_->active());
  admission_->open = false;
  request();
  session_->on_abort();
  EXPECT_FALSE(session_->active());
  EXPECT_EQ(loop_->active_sessions(), 0u);
  EXPECT_TRUE(hooks_->ends.empty()) << "nothing was committed";
}

TEST_F(SessionTest, TakesTheSnapshotAfterAdmission) {
  admission_->open = false;
  request();
  set_fleet({"b"});
  admission_->open = true;
  admission_->resume();
  executor_.run();
  EXPECT_EQ(forwarded_, std::vector<std::string>{"b"});
}

TEST_F(SessionTest, RefusesAWaitingRequestAtItsDeadline) {
  admission_->open = false;
  request();
  fire_alarm();
  EXPECT_EQ(
      replies_.back(),
      "429 inference error: ResourceExhausted - request timed out in queue [rejected-ttl-expired]");
}

TEST_F(SessionTest, RefusesWaitingRequestsWhenDraining) {
  admission_->open = false;
  request();
  director_.begin_drain();
  executor_.run();
  ASSERT_EQ(replies_.size(), 1u);
  EXPECT_NE(replies_[0].find("[rejected-shutting-down]"), std::string::npos);
  EXPECT_FALSE(session_->active());
}

TEST_F(SessionTest, LetsAProducingRequestFinishWhenDraining) {
  producer_->ready = false;
  request();
  director_.begin_drain();
  executor_.run();
  producer_->ready = true;
  producer_->resume();
  executor_.run();
  EXPECT_EQ(forwarded_.size(), 1u);
}

TEST_F(SessionTest, AnswersWhenTheEndpointFailsBeforeItsHead) {
  request();
  session_->on_upstream_failed(UpstreamFailure::kConnect);
  EXPECT_EQ(replies_.back().substr(0, 3), "503");
  EXPECT_EQ(hooks_->ends, std::vector{EndCause::kError});
  request();
  session_->on_upstream_failed(UpstreamFailure::kTimeout);
  EXPECT_EQ(replies_.back().substr(0, 3), "504");
}

using Names = std::vector<std::string>;

TEST_F(SessionTest, TriesOtherEndpointsAndChargesEachOnce) {
  set_fleet({"a", "b", "c", "d"});
  request();
  session_->on_upstream_failed(UpstreamFailure::kConnect);
  EXPECT_EQ(forwarded_, (Names{"a", "b"}));
  EXPECT_EQ(hooks_->charged, 2);
  EXPECT_EQ(hooks_->ends, std::vector{EndCause::kError});
  EXPECT_EQ(fleet_.snapshot()->endpoints[0]->open_requests, 0);
  EXPECT_EQ(fleet_.snapshot()->endpoints[1]->open_requests, 1);
  session_->on_response_headers(200, {});
  session_->on_response_end();
  EXPECT_EQ(hooks_->ends, (std::vector{EndCause::kError, EndCause::kNatural}));
  EXPECT_TRUE(replies_.empty());
  EXPECT_TRUE(shows("llmd_retries_total{cause=\"connect\"} 1\n"));
  EXPECT_TRUE(shows("llmd_upstream_failures_total{cause=\"connect\"} 1\n"));
  EXPECT_TRUE(
      shows("llm_d_epp_request_total{fairness_id=\"default-flow\",model_name=\"m\",priority="
            "\"0\",target_model_name=\"m\"} 1\n"))
      << "one request, however many tries";
  forwarded_.clear();
  request();
  EXPECT_EQ(forwarded_, Names{"a"}) << "the next request starts with all of them";
}

TEST_F(SessionTest, GivesUpAfterThreeEndpoints) {
  set_fleet({"a", "b", "c", "d"});
  request();
  session_->on_upstream_failed(UpstreamFailure::kConnect);
  session_->on_upstream_failed(UpstreamFailure::kUnsent);
  EXPECT_TRUE(replies_.empty());
  session_->on_upstream_failed(UpstreamFailure::kConnect);
  EXPECT_EQ(forwarded_, (Names{"a", "b", "c"}));
  EXPECT_EQ(replies_, Names{"503 inference error: ServiceUnavailable - cannot connect to the "
                            "model server"});
  EXPECT_EQ(hooks_->charged, 3);
  EXPECT_EQ(hooks_->ends.size(), 3u);
  EXPECT_TRUE(shows("llmd_retries_exhausted_total 1\n"));
}

TEST_F(SessionTest, AnswersWithTheFailureWhenNoOtherEndpointIsLeft) {
  request();
  session_->on_upstream_failed(UpstreamFailure::kUnsent);
  EXPECT_EQ(replies_, Names{"503 inference error: ServiceUnavailable - the model server closed the "
                            "connection before answering"});
}

TEST_F(SessionTest, AStaleConnectionIsNoFaultOfItsEndpoint) {
  set_fleet({"a", "b"});
  request();
  EXPECT_FALSE(fresh_);
  session_->on_upstream_failed(UpstreamFailure::kStale);
  EXPECT_EQ(forwarded_, (Names{"a", "a"}));
  EXPECT_TRUE(fresh_);
  session_->on_upstream_failed(UpstreamFailure::kConnect);
  EXPECT_EQ(forwarded_, (Names{"a", "a", "b"}));
  EXPECT_TRUE(fresh_);
  EXPECT_TRUE(shows("llmd_retries_total{cause=\"stale\"} 1\n"));
}

TEST_F(SessionTest, DoesNotSendAgainWhatAnEndpointMayHaveDiedOf) {
  set_fleet({"a", "b"});
  for (const auto failure : {UpstreamFailure::kReset, UpstreamFailure::kBroken,
                             UpstreamFailure::kTimeout, UpstreamFailure::kProtocol}) {
    forwarded_.clear();
    replies_.clear();
    request();
    session_->on_upstream_failed(failure);
    EXPECT_EQ(forwarded_, Names{"a"}) << failure_name(failure);
    EXPECT_EQ(replies_.size(), 1u);
  }
}

struct EagerSessionTest : SessionTest {
  EagerSessionTest()
      : SessionTest({.retry = {.after_send = true}, .ejection = {.enabled = true}}) {}
};

TEST_F(EagerSessionTest, SendsAgainAfterAResetWhenToldSo) {
  set_fleet({"a", "b"});
  request();
  session_->on_upstream_failed(UpstreamFailure::kReset);
  EXPECT_EQ(forwarded_, (Names{"a", "b"}));
  session_->on_response_headers(200, {});
  session_->on_upstream_failed(UpstreamFailure::kBroken);
  EXPECT_EQ(forwarded_.size(), 2u) << "not after the answer has begun";
}

TEST_F(EagerSessionTest, LeavesEjectedEndpointsOutUntilAProbeIsDue) {
  set_fleet({"a", "b"});
  request();
  session_->on_upstream_failed(UpstreamFailure::kConnect);
  session_->on_response_headers(200, {});
  session_->on_response_end();
  const auto ask = [&](int status) {
    forwarded_.clear();
    request();
    session_->on_response_headers(status, {});
    session_->on_response_end();
    return forwarded_.back();
  };
  EXPECT_EQ(ask(200), "b");
  clock_.advance(std::chrono::seconds(1));
  EXPECT_EQ(ask(503), "a") << "the probe";
  EXPECT_EQ(ask(200), "b");
  clock_.advance(std::chrono::seconds(2));
  EXPECT_EQ(ask(404), "a") << "the second probe";
  EXPECT_EQ(ask(200), "a") << "an answer brought it back";
}

TEST_F(EagerSessionTest, LeavesStalledEndpointsOut) {
  set_fleet({"a", "b"});
  for (int i = 0; i < 3; ++i) {
    request();
    session_->on_upstream_failed(UpstreamFailure::kTimeout);
  }
  request();
  EXPECT_EQ(forwarded_, (Names{"a", "a", "a", "b"}));
}

TEST_F(EagerSessionTest, AnEjectedEndpointIsBetterThanNone) {
  set_fleet({"a", "b"});
  request();
  session_->on_upstream_failed(UpstreamFailure::kConnect);
  session_->on_response_headers(200, {});
  session_->on_response_end();
  forwarded_.clear();
  request();
  session_->on_upstream_failed(UpstreamFailure::kConnect);
  EXPECT_EQ(forwarded_, (Names{"b", "a"}));
}

TEST_F(EagerSessionTest, RequestsWithoutABodyAreTriedAgainToo) {
  set_fleet({"a", "b"});
  session_->on_headers("/v1/models", {}, true);
  session_->on_upstream_failed(UpstreamFailure::kConnect);
  ASSERT_EQ(forwarded_.size(), 2u);
  EXPECT_NE(forwarded_[0], forwarded_[1]);
  session_->on_abort();
  EXPECT_EQ(loop_->active_sessions(), 0u);
}

TEST_F(SessionTest, MayEndBetweenTwoTries) {
  set_fleet({"a", "b"});
  request();
  producer_->ready = false;
  session_->on_upstream_failed(UpstreamFailure::kConnect);
  EXPECT_EQ(forwarded_.size(), 1u);
  session_->on_abort();
  EXPECT_EQ(hooks_->charged, 1);
  EXPECT_EQ(hooks_->ends.size(), 1u);
  producer_->resume();
  executor_.run();
  EXPECT_EQ(forwarded_.size(), 1u);
}

TEST_F(SessionTest, EndsSilentlyWhenTheEndpointFailsAfterItsHead) {
  request();
  session_->on_response_headers(200, {});
  session_->on_response_body("x");
  session_->on_upstream_failed(UpstreamFailure::kReset);
  EXPECT_TRUE(replies_.empty());
  EXPECT_EQ(hooks_->ends, std::vector{EndCause::kError});
}

TEST_F(SessionTest, KeepsItsPipelineThroughAReload) {
  producer_->ready = false;
  request();
  director_.set_pipeline(std::make_shared<schedule::Pipeline>());
  executor_.run();
  producer_->ready = true;
  producer_->resume();
  executor_.run();
  EXPECT_EQ(forwarded_.size(), 1u);
}

/// Every illegal pair of the table is counted and changes nothing.
TEST_F(SessionTest, IllegalEventsChangeNothing) {
  const auto before = soft_check_failures();
  session_->on_body("x");
  session_->on_end("x");
  session_->on_response_headers(200, {});
  session_->on_response_body("x");
  session_->on_response_end();
  EXPECT_EQ(soft_check_failures(), before + 5);
  session_->on_abort();
  session_->on_upstream_failed(UpstreamFailure::kReset);
  EXPECT_EQ(soft_check_failures(), before + 5);
  request();
  session_->on_headers("/", {}, false);
  session_->on_end("y");
  EXPECT_EQ(soft_check_failures(), before + 7);
  EXPECT_EQ(forwarded_.size(), 1u);
}

TEST_F(SessionTest, EndsWithWhatItsFrontEndRefuses) {
  const Error large{Code::kResourceExhausted, "request body too large", {}};
  session_->on_headers("/v1/completions", {}, false);
  session_->refuse(413, large);
  EXPECT_FALSE(session_->active());
  EXPECT_FALSE(reply_id_.empty());
  request();
  session_->refuse(413, large);
  request();
  session_->on_response_headers(200, {});
  session_->refuse(413, large);
  EXPECT_EQ(replies_, std::vector<std::string>(3, "413 request body too large"));
  EXPECT_EQ(hooks_->ends, std::vector(2, EndCause::kError));
  EXPECT_TRUE(
      shows("error_total{error_code=\"ResourceExhausted\",model_name=\"m\",target_model_name=\"m\"}"
            " 2\n"));
}

TEST_F(SessionTest, ChargesTheEndpointThatServed) {
  set_fleet({"a", "b"});
  const auto endpoints = fleet_.snapshot()->endpoints;
  using Open = std::pair<int64_t, int64_t>;
  const auto open = [&] {
    return Open(endpoints[0]->open_requests.load(), endpoints[1]->open_requests.load());
  };
  for (const std::string_view other : {"", "10.0.0.1:8000", "10.9.9.9:1"}) {
    request();
    session_->on_response_headers(200, {}, other);
    EXPECT_EQ(open(), Open(1, 0)) << other;
    session_->on_response_end();
  }
  request();
  session_->on_response_headers(200, {}, "10.0.0.1:8001");
  EXPECT_EQ(open(), Open(0, 1));
  EXPECT_EQ(hooks_->moved_to, std::vector<std::string>{"10.0.0.1:8001"});
  session_->on_response_end();
  EXPECT_EQ(open(), Open(0, 0));
}

TEST_F(SessionTest, CountsWhatAShutdownCutsOff) {
  request();
  session_->on_response_headers(200, {});
  session_->on_abort(EndCause::kShutdown);
  EXPECT_EQ(hooks_->ends, std::vector{EndCause::kShutdown});
  EXPECT_TRUE(shows("error_total{error_code=\"ServiceUnavailable\","));
}

TEST(SessionStates, AbortIsNeverIllegal) {
  for (size_t s = 0; s < kStates; ++s)
    EXPECT_NE(rule(static_cast<State>(s), Event::kAbort), Rule::kIllegal);
}

TEST(SessionStates, LateEventsAreNeverIllegal) {
  for (size_t s = 0; s < kStates; ++s)
    for (auto e : {Event::kResume, Event::kDeadline, Event::kDrain, Event::kEvict})
      EXPECT_NE(rule(static_cast<State>(s), e), Rule::kIllegal)
          << state_name(static_cast<State>(s));
}

/// Random event orders: nothing is answered twice, every charge is released once.
TEST_F(SessionTest, ReleasesEveryChargeOnceUnderRandomEvents) {
  Rng rng(20261129);
  set_fleet({"a", "b", "c", "d"});
  int started = 0, retried = 0;
  for (int i = 0; i < 20000; ++i) {
    switch (rng.below(13)) {
      case 0:
        if (!session_->active()) {
          producer_->ready = rng.below(2) == 0;
          admission_->open = rng.below(3) != 0;
          forwarded_.clear();
          replies_.clear();
          ++started;
          request(rng.below(8) == 0 ? "bad" : "m");
        }
        break;
      case 1:
        producer_->ready = true;
        producer_->resume();
        break;
      case 2:
        admission_->open = true;
        admission_->resume();
        break;
      case 3:
        if (!alarms_.empty()) fire_alarm();
        break;
      case 4:
        session_->on_abort();
        break;
      case 5:
        session_->on_upstream_failed(static_cast<UpstreamFailure>(rng.below(kUpstreamFailures)));
        break;
      case 6:
        executor_.run();
        break;
      case 7:
        hooks_->evict();
        break;
      default: {
        const bool out = session_->active() && !forwarded_.empty();
        if (out && rng.below(2)) session_->on_response_headers(200, {});
        if (out && rng.below(2)) session_->on_response_body("x");
        if (out && rng.below(4) == 0) session_->on_response_end();
      }
    }
    retried += forwarded_.size() > 1;
    ASSERT_LE(forwarded_.size(), 4u);  // three endpoints, and one again after a stale connection
    ASSERT_LE(replies_.size(), 1u);
  }
  session_->on_abort();
  EXPECT_GT(started, 500);
  EXPECT_GT(retried, 100);
  EXPECT_EQ(static_cast<size_t>(hooks_->charged), hooks_->ends.size());
  EXPECT_EQ(loop_->active_sessions(), 0u);
}

}  // namespace
}  // namespace llmd::route
