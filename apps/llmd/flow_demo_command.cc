#include "command_line.h"
#include "commands.h"
#include "demo_configs.h"
#include "demo_stage.h"
#include "flow_scenarios.h"

#include "bench/flow_report.h"
#include "bench/open_loop.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>

namespace llmd {
namespace {

constexpr std::string_view kModel = "demo-model";
constexpr size_t kContextTokens = 300;
constexpr int kTraceTokensMax = 1'000'000;
/// The objective of interactive requests, which have priority 10; batch requests have 0.
constexpr std::string_view kObjectives = R"(apiVersion: llm-d.ai/v1alpha2
kind: InferenceObjective
metadata: {name: interactive}
spec: {priority: 10}
)";

struct Options {
  uint64_t seed = 7;
  std::optional<double> time_scale, duration_s;  // instead of the scenario's
  std::string trace;                             // "": none
  bool beside_batch = false;
  std::string directory = "build/demo-flow";
};

Result<FlowScenario> scenario_of(const Options& options) {
  if (options.beside_batch) return beside_a_batch(options.seed);
  if (!options.trace.empty()) return replayed(options.trace);
  return tenants_and_batch();
}

class FlowDemo {
 public:
  FlowDemo(const Options& options, FlowScenario scenario)
      : options_(options), scenario_(std::move(scenario)), stage_(options.directory) {
    if (options.time_scale) scenario_.time_scale = *options.time_scale;
    if (options.duration_s) scenario_.duration_s = *options.duration_s;
    experiment_.title = scenario_.title;
    experiment_.time_scale = scenario_.time_scale;
    experiment_.objective_ms = scenario_.objective_ms;
  }

  Status run() {
    LLMD_TRY(stage_.open());
    std::filesystem::create_directories(stage_.path("objects"));
    LLMD_TRY(stage_.write("objects/objectives.yaml", kObjectives, true));
    const std::string engines[] = {"--model",
                                   std::string(kModel),
                                   "--max-num-seqs",
                                   std::to_string(scenario_.slots),
                                   "--max-model-len",
                                   "16384",
                                   "--prefill-overhead",
                                   "30ms",
                                   "--prefill-time-per-token",
                                   std::string(scenario_.prefill_per_token),
                                   "--inter-token-latency",
                                   std::string(scenario_.inter_token_latency),
                                   "--seed",
                                   std::to_string(options_.seed),
                                   "--time-scale",
                                   fmt::format("{}", scenario_.time_scale)};
    LLMD_TRY(stage_.start_engines(scenario_.servers, engines));
    fmt::print("llmd demo-flow: {}\n", caption());
    for (size_t i = 0; i < scenario_.runs.size(); ++i) {
      LLMD_TRY_ASSIGN(experiment_.runs[i], run_once(scenario_.runs[i]));
    }
    return report();
  }

 private:
  Nanos wall(double model_seconds) const {
    return std::chrono::duration_cast<Nanos>(
        std::chrono::duration<double>(model_seconds / scenario_.time_scale));
  }

  std::string caption() const {
    return fmt::format("{} on {} simulated servers of {} slots; seed {}; 1 s is {} s of model time",
                       scenario_.caption, scenario_.servers, scenario_.slots, options_.seed,
                       scenario_.time_scale);
  }

  /// Without flow control: neither its gate nor the filter that would refuse what finds no place.
  std::string config(bool flow_control) const {
    std::string text(kFlowControlConfig);
    constexpr std::string_view kLimit = "maxConcurrency: ";
    const size_t limit = text.find(kLimit) + kLimit.size();
    text.replace(limit, text.find('}', limit) - limit, std::to_string(scenario_.slots));
    if (flow_control) return text;
    constexpr std::string_view kGate = "featureGates: [flowControl";
    text.insert(text.find(kGate) + kGate.size(), "=false");
    const size_t filter = text.find("  - {pluginRef: concurrency-detector}");
    return text.erase(filter, text.find('\n', filter) + 1 - filter);
  }

  bench::OpenLoopOptions options_of(const FlowLoad& load, const bench::Target& router) const {
    bench::OpenLoopOptions o{
        .target = router,
        .model = std::string(kModel),
        .headers = {{"x-llm-d-inference-fairness-id", std::string(load.fairness_id)}},
        .trace = load.trace.get(),
        .speed = load.speed * scenario_.time_scale,
        .rate = load.rate * scenario_.time_scale,
        .start = wall(load.from * scenario_.duration_s),
        .duration = wall((load.to - load.from) * scenario_.duration_s),
        .context_tokens = kContextTokens,
        .max_tokens = load.trace ? kTraceTokensMax : load.max_tokens,
        .timeout = wall(scenario_.patience_s),
        .seed = options_.seed + static_cast<uint64_t>(&load - scenario_.loads.data())};
    if (!load.objective.empty())
      o.headers.emplace_back("x-llm-d-inference-objective", load.objective);
    return o;
  }

  Result<bench::FlowRun> run_once(const FlowScenario::Run& run) {
    const std::string flags[] = {"--config-text",
                                 config(run.flow_control),
                                 "--objects-dir",
                                 stage_.path("objects"),
                                 "--seed",
                                 std::to_string(options_.seed),
                                 "--allow-experimental-plugins"};
    LLMD_TRY_ASSIGN(auto router, stage_.start_router(fmt::format("router-{}", run.name), flags));
    const auto loads =
        std::span(scenario_.loads).first(std::min(run.loads, scenario_.loads.size()));
    std::vector<bench::OpenLoopOptions> options;
    for (const auto& load : loads) options.push_back(options_of(load, router.target));
    const auto results = bench::run_open_loops(
        options, [&, second = 0](std::span<const bench::OpenLoopResult> all) mutable {
          if (++second % 3 == 0) show_progress(run.name, all);
        });
    bench::FlowRun seen{.name = run.name, .title = run.title, .tenants = {}};
    for (const auto& tenant : scenario_.tenants) seen.tenants.push_back({tenant, {}});
    for (size_t i = 0; i < results.size(); ++i)
      bench::merge(seen.tenants[loads[i].tenant].result, results[i]);
    return seen;
  }

  static void show_progress(std::string_view name, std::span<const bench::OpenLoopResult> loads) {
    bench::OpenLoopResult all;
    for (const auto& load : loads) bench::merge(all, load);
    fmt::print("  {:<7}  {:>5} sent, {:>5} answered, {:>4} refused, {:>4} gave up\n", name,
               all.sent, all.ok, all.refused, all.timed_out + all.broken);
    std::fflush(stdout);
  }

  Status report() {
    fmt::print("\n{}\n", bench::flow_table(experiment_));
    LLMD_TRY(stage_.write("report.json", bench::flow_json(experiment_)));
    return stage_.write("report.svg", bench::flow_picture(experiment_, caption()));
  }

  const Options options_;
  FlowScenario scenario_;
  DemoStage stage_;
  bench::FlowExperiment experiment_;
};

}  // namespace

int run_demo_flow(int argc, char** argv) {
  Options options;
  CLI::App app(
      "A saturated simulated fleet, with and without flow control: two tenants and a batch, or a "
      "recorded trace; or interactive requests alone and beside a batch.",
      "llmd demo-flow");
  app.option_defaults()->always_capture_default();
  app.add_option("--seed", options.seed, "of the requests and the servers");
  auto* trace =
      app.add_option("--trace", options.trace,
                     "replays a trace of Azure (CSV) or Mooncake (JSON lines) on eight servers");
  app.add_flag("--beside-batch", options.beside_batch,
               "what a batch costs interactive requests on eight servers")
      ->excludes(trace);
  app.option_defaults()->always_capture_default(false);
  app.add_option("--time-scale", options.time_scale,
                 "seconds of model time in one second of the run")
      ->check(CLI::Range(0.1, 50.0));
  app.add_option("--duration", options.duration_s, "seconds of arrivals in each run, model time")
      ->check(CLI::Range(1.0, 100'000.0));
  app.option_defaults()->always_capture_default();
  app.add_option("--out", options.directory, "folder for report.json, report.svg and logs");
  if (const auto code = parse_command_line(app, argc, argv)) return *code;
  auto scenario = scenario_of(options);
  const auto done = scenario ? FlowDemo(options, std::move(*scenario)).run()
                             : Status(fail(std::move(scenario).error()));
  if (!done) {
    std::fprintf(stderr, "llmd demo-flow: %s\n", done.error().message.c_str());
    return 1;
  }
  return 0;
}

}  // namespace llmd
