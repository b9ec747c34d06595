#include "command_line.h"
#include "commands.h"
#include "demo_configs.h"
#include "demo_stage.h"

#include "bench/flow_report.h"
#include "bench/open_loop.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>

namespace llmd {
namespace {

constexpr int kServers = 2;
constexpr int kSlots = 8;  // of a server: requests that it runs at once
constexpr std::string_view kModel = "demo-model";
constexpr size_t kContextTokens = 300;
/// The objective of interactive requests, which have priority 10; batch requests have 0.
constexpr std::string_view kObjectives = R"(apiVersion: llm-d.ai/v1alpha2
kind: InferenceObjective
metadata: {name: interactive}
spec: {priority: 10}
)";

struct Options {
  uint64_t seed = 7;
  double time_scale = 4;
  double duration_s = 96;  // of model time
  std::string directory = "build/demo-flow";
};

/// Requests of one kind. Times in model time; the run lasts 1, so that `from` and `to` are parts of
/// it.
struct Load {
  size_t tenant;
  std::string_view fairness_id;
  std::string_view objective;  // "": none
  double rate;                 // requests a second
  double from, to;
  int max_tokens;
};
constexpr std::string_view kTenants[] = {"acme", "globex", "batch"};
/// A server answers about 10.8 interactive requests a second, or 4.1 of the batch. Together these
/// ask for 1.55 times what both can do, and for 2.5 times that while globex has its burst.
constexpr Load kLoads[] = {
    {0, "acme", "interactive", 4.3, 0, 1, 64},
    {1, "globex", "interactive", 7.5, 0, 1, 64},
    {1, "globex", "interactive", 21, 0.33, 0.58, 64},
    {2, "batch", "", 8.2, 0.08, 1, 256},
};
constexpr double kPatienceSeconds = 40;  // of clients, model time

class FlowDemo {
 public:
  explicit FlowDemo(const Options& options) : options_(options), stage_(options.directory) {
    experiment_.time_scale = options.time_scale;
  }

  Status run() {
    LLMD_TRY(stage_.open());
    std::filesystem::create_directories(stage_.path("objects"));
    LLMD_TRY(stage_.write("objects/objectives.yaml", kObjectives, true));
    const std::string engines[] = {"--model",
                                   std::string(kModel),
                                   "--max-num-seqs",
                                   std::to_string(kSlots),
                                   "--max-model-len",
                                   "4096",
                                   "--prefill-overhead",
                                   "30ms",
                                   "--prefill-time-per-token",
                                   "250us",
                                   "--inter-token-latency",
                                   "20ms",
                                   "--seed",
                                   std::to_string(options_.seed),
                                   "--time-scale",
                                   fmt::format("{}", options_.time_scale)};
    LLMD_TRY(stage_.start_engines(kServers, engines));
    fmt::print(
        "llmd demo-flow: two tenants and a batch on {} servers of {} slots, {} s of model time; "
        "seed {}, 1 s here is {} s of model time\n",
        kServers, kSlots, options_.duration_s, options_.seed, options_.time_scale);
    LLMD_TRY_ASSIGN(experiment_.without, run_once("without", false));
    LLMD_TRY_ASSIGN(experiment_.with, run_once("with", true));
    return report();
  }

 private:
  Nanos wall(double model_seconds) const {
    return std::chrono::duration_cast<Nanos>(
        std::chrono::duration<double>(model_seconds / options_.time_scale));
  }

  /// Without flow control: neither its gate nor the filter that would refuse what finds no place.
  static std::string config(bool flow_control) {
    std::string text(kFlowControlConfig);
    if (flow_control) return text;
    constexpr std::string_view kGate = "featureGates: [flowControl";
    text.insert(text.find(kGate) + kGate.size(), "=false");
    const size_t filter = text.find("  - {pluginRef: concurrency-detector}");
    return text.erase(filter, text.find('\n', filter) + 1 - filter);
  }

  bench::OpenLoopOptions options_of(const Load& load, const bench::Target& router) const {
    bench::OpenLoopOptions o{
        .target = router,
        .model = std::string(kModel),
        .headers = {{"x-llm-d-inference-fairness-id", std::string(load.fairness_id)}},
        .rate = load.rate * options_.time_scale,
        .start = wall(load.from * options_.duration_s),
        .duration = wall((load.to - load.from) * options_.duration_s),
        .context_tokens = kContextTokens,
        .max_tokens = load.max_tokens,
        .timeout = wall(kPatienceSeconds),
        .seed = options_.seed + static_cast<uint64_t>(&load - kLoads)};
    if (!load.objective.empty())
      o.headers.emplace_back("x-llm-d-inference-objective", load.objective);
    return o;
  }

  Result<std::vector<bench::TenantRun>> run_once(std::string_view name, bool flow_control) {
    const std::string flags[] = {"--config-text",
                                 config(flow_control),
                                 "--objects-dir",
                                 stage_.path("objects"),
                                 "--seed",
                                 std::to_string(options_.seed),
                                 "--allow-experimental-plugins"};
    LLMD_TRY_ASSIGN(auto router, stage_.start_router(fmt::format("router-{}", name), flags));
    std::vector<bench::OpenLoopOptions> loads;
    for (const auto& load : kLoads) loads.push_back(options_of(load, router.target));
    const auto results = bench::run_open_loops(
        loads, [&, second = 0](std::span<const bench::OpenLoopResult> all) mutable {
          if (++second % 3 == 0) show_progress(name, all);
        });
    std::vector<bench::TenantRun> tenants;
    for (const auto tenant : kTenants) tenants.push_back({std::string(tenant), {}});
    for (size_t i = 0; i < results.size(); ++i)
      bench::merge(tenants[kLoads[i].tenant].result, results[i]);
    return tenants;
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
    const std::string caption = fmt::format(
        "two tenants (priority 10, one with a burst) and a batch (priority 0) on {} simulated "
        "servers of {} slots behind llmd router; seed {}; 1 s of the run is {} s of model time",
        kServers, kSlots, options_.seed, options_.time_scale);
    LLMD_TRY(stage_.write("report.json", bench::flow_json(experiment_)));
    return stage_.write("report.svg", bench::flow_picture(experiment_, caption));
  }

  const Options options_;
  DemoStage stage_;
  bench::FlowExperiment experiment_;
};

}  // namespace

int run_demo_flow(int argc, char** argv) {
  Options options;
  CLI::App app(
      "Two tenants and a batch on a saturated simulated fleet, with and without flow control.",
      "llmd demo-flow");
  app.option_defaults()->always_capture_default();
  app.add_option("--seed", options.seed, "of the requests and the servers");
  app.add_option("--time-scale", options.time_scale,
                 "seconds of model time in one second of the run")
      ->check(CLI::Range(0.1, 50.0));
  app.add_option("--duration", options.duration_s, "seconds of arrivals in each run, model time")
      ->check(CLI::Range(1.0, 100'000.0));
  app.add_option("--out", options.directory, "folder for report.json, report.svg and logs");
  if (const auto code = parse_command_line(app, argc, argv)) return *code;
  if (const auto done = FlowDemo(options).run(); !done) {
    std::fprintf(stderr, "llmd demo-flow: %s\n", done.error().message.c_str());
    return 1;
  }
  return 0;
}

}  // namespace llmd
