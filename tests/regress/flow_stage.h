#pragma once

#include "plugin_list.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/rng.h"
#include "config/loader.h"
#include "fleet/fleet.h"
#include "flow/service.h"
#include "route/director.h"
#include "route/session.h"
#include "route/testing.h"

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace llmd::regress {

/// A pool under flow control in process: a configuration, sessions without a front end, and a
/// dispatcher that has its turn whenever it is woken or its alarm rings. Time passes by advance().
class FlowStage {
 public:
  /// `body` follows the document's head and its gate. Objective "pN" has priority N.
  explicit FlowStage(const std::string& body, size_t endpoints = 1,
                     const std::vector<int32_t>& priorities = {7, -1})
      : director_(fleet, metrics, clock) {
    clock.advance(std::chrono::hours(1));
    controller_.attach({.wake = [this] { woken_ = true; },
                        .alarm = [this](Nanos after) { alarm_ = clock.now() + after; }});
    controller_.follow(fleet);
    state_.get<flow::ControllerSlot>(flow::ControllerSlot::kName, [this] {
      return new flow::ControllerSlot{[this]() -> flow::Controller& { return controller_; }};
    });
    auto loaded = config::load(
        "apiVersion: llm-d.ai/v1\nkind: EndpointPickerConfig\nfeatureGates: [flowControl]\n" + body,
        "flow.yaml",
        {.registry = registry_,
         .state = state_,
         .metrics = metrics,
         .clock = clock,
         .fleet = &fleet,
         .allow_experimental = true});
    if (!loaded) check_failed(loaded.error().message.c_str(), __FILE__, __LINE__);
    set_endpoints(endpoints);
    director_.set_pipeline(loaded->pipeline);
    std::vector<request::Objective> objectives;
    for (const int32_t priority : priorities)
      objectives.push_back({.name = "p" + std::to_string(priority), .priority = priority});
    director_.set_objects(std::make_shared<const request::Objects>(
        std::move(objectives), std::vector<request::ModelRewrite>{}));
    loop_.emplace(director_, route::LoopHost{executor_, rng_, 0, [this](Nanos after, auto work) {
                                               timers_.emplace(clock.now() + after,
                                                               std::move(work));
                                             }});
    settle();
  }
  ~FlowStage() {
    clients_.clear();
    settle();
    loop_.reset();
    controller_.retire();
  }

  /// One request.
  class Client final : public route::SessionSink {
   public:
    Client(FlowStage& stage, std::vector<std::pair<std::string, std::string>> headers)
        : stage_(stage), lines_(std::move(headers)), session_(*stage.loop_, *this) {
      for (const auto& [name, value] : lines_) fields_.push_back({name, value});
      session_.on_headers("/v1/completions", HeaderView(fields_), false);
      session_.on_end(kBody);
    }
    void forward(const route::Forward&) override { sent = true; }
    void reply(const route::Reply& r) override {
      status = r.status;
      reason = r.drop_reason;
      message = r.message;
    }
    /// The server has answered.
    void finish() {
      session_.on_response_headers(200, {});
      session_.on_response_end();
      stage_.settle();
    }
    void leave() {
      session_.on_abort();
      stage_.settle();
    }

    bool sent = false;
    int status = 0;
    std::string reason, message;

   private:
    static constexpr std::string_view kBody = R"({"model":"m","prompt":"p"})";
    FlowStage& stage_;
    const std::vector<std::pair<std::string, std::string>> lines_;
    std::vector<HeaderField> fields_;
    route::Session session_;
  };

  /// A request of this priority, whose objective exists. Lives as long as the stage.
  Client& come(int32_t priority = 0, const std::string& fairness_id = "tenant") {
    std::vector<std::pair<std::string, std::string>> headers = {
        {"x-llm-d-inference-fairness-id", fairness_id}};
    if (priority != 0)
      headers.emplace_back("x-llm-d-inference-objective", "p" + std::to_string(priority));
    auto& client = *clients_.emplace_back(std::make_unique<Client>(*this, std::move(headers)));
    settle();
    return client;
  }

  void set_endpoints(size_t count) {
    std::vector<fleet::EndpointSpec> specs(count);
    for (size_t i = 0; i < count; ++i) {
      specs[i].name = "e" + std::to_string(i);
      specs[i].address = "10.0.0.1";
      specs[i].port = static_cast<uint16_t>(8000 + i);
    }
    fleet.set(std::move(specs));
    settle();
  }
  /// As after a scrape that found the endpoint so.
  void scraped(size_t endpoint, fleet::EndpointMetrics metrics_now) {
    metrics_now.updated = clock.now();
    metrics_now.interval = std::chrono::milliseconds(50);
    fleet.snapshot()->endpoints[endpoint]->metrics.store(metrics_now);
  }

  void advance(Nanos by) {
    const TimePoint end = clock.now() + by;
    while (true) {
      const TimePoint timer = timers_.empty() ? TimePoint::max() : timers_.begin()->first;
      const TimePoint next = std::min(timer, alarm_.value_or(TimePoint::max()));
      if (next > end) break;
      clock.advance(std::max(next - clock.now(), Nanos{0}));
      if (timer == next)
        timers_.extract(timers_.begin()).mapped()();
      else
        turn();
      settle();
    }
    clock.advance(end - clock.now());
  }

  void drain() {
    director_.begin_drain();
    settle();
  }

  /// Whether the metrics page has the line.
  bool shows(const std::string& line) {
    return ("\n" + metrics.render()).contains("\n" + line + "\n");
  }
  size_t waiting() const { return controller_.waiting(); }

  ManualClock clock;
  metric::Registry metrics{1};
  fleet::Fleet fleet;

 private:
  void turn() {
    woken_ = false;
    alarm_.reset();
    controller_.run();
  }
  void settle() {
    for (executor_.run(); std::exchange(woken_, false); executor_.run()) turn();
  }

  plugin::Registry registry_ = builtin_plugins();
  plugin::StateStore state_;
  Rng rng_{1};
  route::testing::StepExecutor executor_;
  flow::Controller controller_{clock, metrics, "pool"};
  route::Director director_;
  std::multimap<TimePoint, std::move_only_function<void()>> timers_;
  std::optional<route::LoopDirector> loop_;
  std::deque<std::unique_ptr<Client>> clients_;
  bool woken_ = false;
  std::optional<TimePoint> alarm_;
};

/// Servers that take so many requests at a time, and a flowControl section.
inline std::string places(int concurrency, const std::string& flow) {
  return "plugins: [{type: concurrency-detector, parameters: {maxConcurrency: " +
         std::to_string(concurrency) +
         "}}, {type: active-request-scorer}]\nschedulingProfiles: [{name: default, plugins: "
         "[{pluginRef: active-request-scorer}]}]\nflowControl:\n"
         "  saturationDetector: {pluginRef: concurrency-detector}\n" +
         flow;
}

}  // namespace llmd::regress
