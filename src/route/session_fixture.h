#pragma once

#include "base/check.h"
#include "metric/registry.h"
#include "route/director.h"
#include "route/session.h"
#include "route/testing.h"
#include "schedule/moved_hook.h"
#include "schedule/pipeline.h"

#include <gtest/gtest.h>

#include <deque>
#include <optional>
#include <string>

/// A session between plugins that wait, refuse and count as a test tells them.

namespace llmd::route {

using schedule::EndCause;
using schedule::Progress;
using schedule::RequestContext;
using testing::own;
using testing::StepExecutor;

class FirstPicker final : public schedule::Picker {
 public:
  size_t pick(RequestContext&, std::span<const uint32_t> selected, std::span<const double>,
              std::span<uint32_t> picked) const override {
    picked[0] = selected[0];
    return 1;
  }
};

/// Waits for a while at its first call.
class PatientProducer final : public schedule::Producer {
 public:
  Result<Progress> produce(RequestContext& c) const override {
    if (calls++ > 0) return Progress::kDone;
    c.suspend_for(std::chrono::milliseconds(20));
    return Progress::kSuspended;
  }
  mutable int calls = 0;
};

/// Suspends until the test resumes it.
class LateProducer final : public schedule::Producer {
 public:
  Result<Progress> produce(RequestContext& c) const override {
    ++calls;
    if (ready) return Progress::kDone;
    resume = c.suspend();
    return Progress::kSuspended;
  }
  mutable int calls = 0;
  mutable schedule::Signal resume;
  bool ready = false;
};

class LateAdmission final : public schedule::Admission {
 public:
  Result<Progress> admit(
      RequestContext& c,
      const std::function<std::span<const schedule::Candidate>()>&) const override {
    if (open) return Progress::kDone;
    resume = c.suspend();
    return Progress::kSuspended;
  }
  Nanos deadline() const override { return std::chrono::seconds(60); }
  mutable schedule::Signal resume;
  bool open = true;
};

class CountingHooks final : public schedule::PreRequest,
                            public schedule::ResponseHook,
                            public schedule::MovedHook {
 public:
  Status pre_request(RequestContext& c) const override {
    ++charged;
    evict = c.eviction();
    return {};
  }
  void on_moved(RequestContext& c) const override { moved_to.push_back(c.target().host_port()); }
  void on_first_chunk(RequestContext&) const override { ++first_chunks; }
  void on_end(RequestContext&, EndCause cause, const request::Usage&) const override {
    ends.push_back(cause);
  }
  mutable int charged = 0;
  mutable int first_chunks = 0;
  mutable std::vector<std::string> moved_to;
  mutable std::vector<EndCause> ends;
  mutable schedule::Signal evict;  // the request that came last
};

class SessionTest : public ::testing::Test, public SessionSink {
 protected:
  explicit SessionTest(const DirectorOptions& options = {})
      : director_(fleet_, metrics_, clock_, options) {
    auto pipeline = testing::trivial_pipeline(testing::Body::kIsTheModel);
    pipeline->profiles[0].picker.plugin = own(*pipeline, std::make_unique<FirstPicker>());
    producer_ = own(*pipeline, std::make_unique<LateProducer>());
    producer_->ready = true;
    pipeline->producers.push_back({producer_, {}});
    hooks_ = own(*pipeline, std::make_unique<CountingHooks>());
    pipeline->pre_request.push_back({hooks_, {}});
    pipeline->response.push_back({hooks_, {}});
    auto admission = std::make_unique<LateAdmission>();
    admission_ = admission.get();
    pipeline->admission = std::move(admission);
    director_.set_pipeline(pipeline);
    set_fleet({"a"});
    loop_.emplace(director_,
                  LoopHost{executor_, rng_, 0, [this](Nanos d, std::move_only_function<void()> f) {
                             alarms_.emplace_back(d, std::move(f));
                           }});
    session_.emplace(*loop_, *this);
  }

  void set_fleet(std::vector<std::string> names) {
    std::vector<fleet::EndpointSpec> specs;
    uint16_t port = 8000;
    for (auto& name : names) specs.push_back({.name = name, .address = "10.0.0.1", .port = port++});
    fleet_.set(std::move(specs));
    executor_.run();
  }

  void forward(const Forward& f) override {
    for (auto* endpoint : f.endpoints) forwarded_.push_back(endpoint->spec().name);
    fresh_ = f.fresh_connection;
    set_headers_.clear();
    for (const auto& h : f.set_headers) set_headers_.emplace_back(h.name, h.value);
  }
  void reply(const Reply& r) override {
    reply_id_ = r.request_id;
    replies_.push_back(std::to_string(r.status) + " " + std::string(r.message) +
                       (r.drop_reason.empty() ? "" : " [" + std::string(r.drop_reason) + "]"));
  }

  void request(std::string_view body = "m") {
    session_->on_headers("/v1/completions?x=1", {}, false);
    session_->on_body(body.substr(0, 1));
    session_->on_end(body);
  }
  void fire_alarm() {
    auto alarm = std::move(alarms_.front());
    alarms_.pop_front();
    alarm.second();
  }

  bool shows(std::string_view line) { return metrics_.render().find(line) != std::string::npos; }

  bool fresh_ = false;
  ManualClock clock_;
  Rng rng_{1};
  metric::Registry metrics_{1};
  fleet::Fleet fleet_;
  StepExecutor executor_;
  Director director_;
  std::optional<LoopDirector> loop_;
  std::optional<Session> session_;
  LateProducer* producer_;
  LateAdmission* admission_;
  CountingHooks* hooks_;
  std::deque<std::pair<Nanos, std::move_only_function<void()>>> alarms_;
  std::vector<std::string> forwarded_, replies_;
  std::string reply_id_;
  std::vector<std::pair<std::string, std::string>> set_headers_;
};

}  // namespace llmd::route
