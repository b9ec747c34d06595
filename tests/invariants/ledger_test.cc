#include "plugin_list.h"

#include "base/check.h"
#include "config/loader.h"
#include "route/director.h"
#include "route/session.h"
#include "route/testing.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

/// Whatever happens to requests and endpoints, in whatever order: the ledger of work in flight is
/// the sum of what the requests under way still owe, and nothing in the end. The whole path of a
/// request runs: parser, scheduler with prefill and decode, session, retries, hooks; the model is
/// plain arithmetic.
namespace llmd {
namespace {

using route::Session;
using route::UpstreamFailure;
using route::testing::StepExecutor;
using schedule::EndCause;

struct Load {
  int64_t requests = 0;
  int64_t tokens = 0;
  bool operator==(const Load&) const = default;
};

/// What a request owes one endpoint.
struct Debt {
  uint64_t generation = 0;
  bool prefill = false;
  Load load;
};

/// A client: drives one session and keeps the model of what its request owes.
class Client final : public route::SessionSink {
 public:
  Client(route::LoopDirector& loop, bool charges_output)
      : session(loop, *this), charges_output_(charges_output) {}

  void start(size_t prompt_tokens) {
    prompt_tokens_ = static_cast<int64_t>(prompt_tokens);
    body_ = R"({"model":"m","prompt":")" + std::string(4 * prompt_tokens, 'a') + "\"}";
    session.on_headers("/v1/completions", {}, false);
    session.on_body(body_.substr(0, body_.size() / 2));
  }
  void end_request() { session.on_end(body_); }
  void chunk() {
    session.on_response_body("x");
    if (std::exchange(answering, true)) return;
    for (auto& debt : debts) {
      if (!charges_output_ || debt.prefill) debt.load.tokens = 0;
      if (debt.prefill) debt.load.requests = 0;
    }
  }
  /// After an event that ends the request, or may have sent it elsewhere.
  void settle() {
    if (!session.active()) debts.clear();
  }

  void forward(const route::Forward& f) override {
    debts.clear();
    answering = responding = false;
    const auto& decision = *f.decision;
    for (size_t p = 0; p < decision.results.size(); ++p) {
      if (decision.results[p].targets.empty()) continue;
      const auto& endpoint = *decision.candidates[decision.results[p].targets[0]].endpoint;
      const int64_t output =
          charges_output_ ? std::llround(1.5 * static_cast<double>(prompt_tokens_)) : 0;
      debts.push_back({.generation = endpoint.generation(),
                       .prefill = p != decision.primary,
                       .load = {1, prompt_tokens_ + output}});
    }
    forwarded = true;
  }
  void reply(const route::Reply&) override { debts.clear(); }

  Session session;
  std::vector<Debt> debts;
  bool forwarded = false;   // its request has reached an endpoint
  bool responding = false;  // the head of the answer has been seen
  bool answering = false;   // and something of its body

 private:
  const bool charges_output_;
  int64_t prompt_tokens_ = 0;
  std::string body_;
};

constexpr std::string_view kPlugins = R"(apiVersion: llm-d.ai/v1
kind: EndpointPickerConfig
plugins:
- {type: disagg-profile-handler, parameters: {deciders: {prefill: always-disagg-pd-decider}}}
- {type: always-disagg-pd-decider}
- {type: prefill-filter}
- {type: decode-filter}
- {type: active-request-scorer}
- {type: random-picker}
schedulingProfiles:
- {name: prefill, plugins: [{pluginRef: prefill-filter}, {pluginRef: active-request-scorer}, {pluginRef: random-picker}]}
- {name: decode, plugins: [{pluginRef: decode-filter}, {pluginRef: random-picker}]}
)";

class LedgerInvariant : public ::testing::TestWithParam<bool> {
 protected:
  LedgerInvariant() : director_(fleet_, metrics_, clock_) {
    clock_.advance(std::chrono::hours(1));
    reload();
    loop_.emplace(director_, route::LoopHost{executor_, rng_, 0, [](Nanos, auto) {}});
    for (int i = 0; i < 8; ++i) clients_.push_back(std::make_unique<Client>(*loop_, GetParam()));
    change_fleet();
  }

  /// A new pipeline; requests under way keep theirs, the ledger goes on.
  void reload() {
    std::string text(kPlugins);
    text.insert(text.find("- {type: prefill-filter}"),
                std::string("- {type: inflight-load-producer, parameters: "
                            "{addEstimatedOutputTokens: ") +
                    (GetParam() ? "true" : "false") + "}}\n");
    auto loaded = config::load(text, "f.yaml",
                               {.registry = registry_,
                                .state = state_,
                                .metrics = metrics_,
                                .clock = clock_,
                                .fleet = &fleet_});
    if (!loaded) check_failed(loaded.error().message.c_str(), __FILE__, __LINE__);
    pipeline_ = loaded->pipeline;
    director_.set_pipeline(pipeline_);
    executor_.run();
  }

  /// Endpoints come, go and come back under the same name and address.
  void change_fleet() {
    std::vector<fleet::EndpointSpec> specs;
    uint16_t port = 8000;
    for (const auto& [name, role] : {std::pair("d1", "decode"),
                                     {"d2", "decode"},
                                     {"p1", "prefill"},
                                     {"p2", "prefill"},
                                     {"b", "both"}}) {
      ++port;
      if (rng_.below(4) == 0) continue;
      specs.push_back(
          {.name = name, .address = "10.0.0.1", .port = port, .labels = {{"llm-d.ai/role", role}}});
    }
    fleet_.set(std::move(specs));
    executor_.run();
  }

  void step() {
    clock_.advance(std::chrono::milliseconds(rng_.below(50)));
    const auto event = rng_.below(40);
    if (event == 0) return change_fleet();
    if (event == 1) return reload();
    Client& client = *clients_[rng_.below(clients_.size())];
    if (!client.session.active()) {
      client.forwarded = false;
      return client.start(1 + rng_.below(300));
    }
    if (event < 6) {
      constexpr EndCause kCauses[] = {EndCause::kClientDisconnect, EndCause::kEvicted,
                                      EndCause::kError};
      client.session.on_abort(kCauses[rng_.below(3)]);
    } else if (!client.forwarded) {
      client.end_request();
    } else if (event < 12) {
      client.session.on_upstream_failed(static_cast<UpstreamFailure>(rng_.below(7)));
    } else if (!client.responding) {
      client.responding = true;
      client.session.on_response_headers(rng_.below(5) == 0 ? 503 : 200, {});
    } else if (event < 28) {
      client.chunk();
    } else {
      client.session.on_response_end();
    }
    client.settle();
  }

  /// What the producer shows in the debug state, by endpoint.
  std::map<std::string, Load> ledger() const {
    std::map<std::string, Load> loads;
    for (const auto& plugin : pipeline_->resolved) {
      if (plugin.type != "inflight-load-producer") continue;
      const auto dump = nlohmann::json::parse(plugin.plugin->dump_state());
      for (const auto& entry : dump.at("endpoints"))
        loads[entry.at("endpoint")] = {entry.at("requests"), entry.at("tokens")};
    }
    return loads;
  }

  std::map<std::string, Load> model() const {
    std::map<std::string, Load> loads;
    const auto snapshot = fleet_.snapshot();
    for (const auto& endpoint : snapshot->endpoints) {
      Load sum;
      for (const auto& client : clients_)
        for (const auto& debt : client->debts) {
          if (debt.generation != endpoint->generation()) continue;
          sum.requests += debt.load.requests;
          sum.tokens += debt.load.tokens;
        }
      if (sum != Load{}) loads[endpoint->id()] = sum;
    }
    return loads;
  }

  static std::string text(const std::map<std::string, Load>& loads) {
    std::string out;
    for (const auto& [id, load] : loads)
      out += id + " " + std::to_string(load.requests) + "/" + std::to_string(load.tokens) + "; ";
    return out;
  }

  plugin::Registry registry_ = builtin_plugins();
  plugin::StateStore state_;
  metric::Registry metrics_{1};
  ManualClock clock_;
  Rng rng_{5};
  StepExecutor executor_;
  fleet::Fleet fleet_;
  schedule::PipelinePtr pipeline_;
  route::Director director_;
  std::optional<route::LoopDirector> loop_;
  std::vector<std::unique_ptr<Client>> clients_;
};

TEST_P(LedgerInvariant, IsWhatTheRequestsUnderWayOwe) {
  size_t busy = 0;
  for (int i = 0; i < 10'000; ++i) {
    step();
    ASSERT_EQ(text(ledger()), text(model())) << "step " << i;
    busy += !model().empty();
  }
  EXPECT_GT(busy, 5'000u);
  for (auto& client : clients_) client->session.on_abort();
  EXPECT_EQ(text(ledger()), "");
}

INSTANTIATE_TEST_SUITE_P(OutputCharged, LedgerInvariant, ::testing::Bool());

}  // namespace
}  // namespace llmd
