#include "command_line.h"
#include "commands.h"
#include "demo_configs.h"
#include "demo_stage.h"

#include "bench/context_pairs.h"
#include "bench/pair_experiment.h"
#include "bench/report.h"
#include "bench/report_picture.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cstdio>

namespace llmd {
namespace {

/// The simulator's preset of the same name gives the rest: 1.97 s of model time for a cold prompt
/// of 5 200 tokens, 0.13 s when its context is cached.
constexpr std::string_view kPreset = "demo";
constexpr std::string_view kPrefillDeviation = "15ms";
constexpr int kCacheTokens = 21840;
constexpr int kReplicas = 2;
constexpr std::string_view kModel = "demo-model";

struct Options {
  uint64_t seed = 7;
  double time_scale = 4;
  int rounds = 3;
  int pairs = 10;
  int context_tokens = 5200;
  std::string directory = "build/demo";
};

struct Policy {
  std::string_view name;
  std::string_view config;
};
constexpr Policy kRandom{"random", kRandomConfig};
constexpr Policy kPrefix{"prefix", kPrefixAwareConfig};

class Demo {
 public:
  explicit Demo(const Options& options)
      : options_(options), rng_(options.seed), stage_(options.directory) {}

  Status run() {
    LLMD_TRY(stage_.open());
    const std::string engines[] = {"--model",
                                   std::string(kModel),
                                   "--preset",
                                   std::string(kPreset),
                                   "--prefill-time-std-dev",
                                   std::string(kPrefillDeviation),
                                   "--seed",
                                   std::to_string(options_.seed),
                                   "--time-scale",
                                   fmt::format("{}", options_.time_scale)};
    LLMD_TRY(stage_.start_engines(kReplicas, engines));
    fmt::print(
        "llmd demo: {} rounds of {} pairs, contexts of {} tokens, two servers of {} cached tokens; "
        "seed {}, "
        "1 s here is {} s of model time\n",
        options_.rounds, options_.pairs, options_.context_tokens, kCacheTokens, options_.seed,
        options_.time_scale);
    for (int round = 1; round <= options_.rounds; ++round) {
      const auto pairs = bench::make_context_pairs(rng_, static_cast<size_t>(options_.pairs),
                                                   static_cast<size_t>(options_.context_tokens));
      const Policy& first = round % 2 == 1 ? kRandom : kPrefix;
      const Policy& second = round % 2 == 1 ? kPrefix : kRandom;
      LLMD_TRY(run_policy(first, pairs, round));
      LLMD_TRY(run_policy(second, pairs, round));
    }
    return report();
  }

 private:
  /// A new router process knows nothing of earlier requests, and the engines' caches are emptied:
  /// every turn starts cold.
  Status run_policy(const Policy& policy, std::span<const bench::ContextPair> pairs, int round) {
    LLMD_TRY(bench::reset_prefix_caches(stage_.client(), stage_.engines()));
    const std::string flags[] = {"--seed",
                                 std::to_string(options_.seed + static_cast<uint64_t>(round)),
                                 "--refresh-metrics-interval",
                                 "1s",
                                 "--config-text",
                                 std::string(policy.config)};
    LLMD_TRY_ASSIGN(auto router,
                    stage_.start_router(fmt::format("router-{}-{}", round, policy.name), flags));
    const bench::PairSetting setting{.router = router.target,
                                     .engines = {stage_.engines().begin(), stage_.engines().end()},
                                     .model = std::string(kModel),
                                     .time_scale = options_.time_scale,
                                     .id_prefix = fmt::format("demo-{}-{}", round, policy.name)};
    int done = 0;
    const auto progress = [&](const bench::SecondRequest& second) {
      ++done;
      fmt::print("  round {}/{}  {:<6}  pair {:>2}/{}  {}  TTFT {:7.1f} ms\n", round,
                 options_.rounds, policy.name, done, options_.pairs,
                 second.returned ? "back on the first replica" : "on the other replica     ",
                 second.ttft_ms);
      std::fflush(stdout);
    };
    LLMD_TRY_ASSIGN(auto measured,
                    bench::run_pairs(stage_.client(), setting, pairs, round, progress));
    auto& all = policy.name == kRandom.name ? experiment_.random : experiment_.prefix;
    all.insert(all.end(), measured.begin(), measured.end());
    return {};
  }

  Status report() {
    experiment_.time_scale = options_.time_scale;
    fmt::print("\n{}\n", bench::report_table(experiment_));
    const std::string caption = fmt::format(
        "{} pairs per policy on two simulated servers of {} cached tokens behind llmd router; seed "
        "{}; 1 s of the run is "
        "{} s of model time",
        experiment_.prefix.size(), kCacheTokens, options_.seed, options_.time_scale);
    LLMD_TRY(stage_.write("report.json", bench::report_json(experiment_)));
    return stage_.write("report.svg", bench::report_picture(experiment_, caption));
  }

  const Options options_;
  Rng rng_;
  DemoStage stage_;
  bench::Experiment experiment_;
};

}  // namespace

int run_demo(int argc, char** argv) {
  Options options;
  CLI::App app(
      "The prefix-cache experiment on two simulated servers: random against prefix-aware routing.",
      "llmd demo");
  app.option_defaults()->always_capture_default();
  app.add_option("--seed", options.seed, "of the contexts, the servers and the random policy");
  app.add_option("--time-scale", options.time_scale,
                 "seconds of model time in one second of the run")
      ->check(CLI::Range(0.1, 50.0));
  app.add_option("--rounds", options.rounds, "rounds, each under both policies")
      ->check(CLI::Range(1, 1000));
  app.add_option("--pairs", options.pairs, "pairs of questions a round")
      ->check(CLI::Range(1, 1000));
  app.add_option("--context-tokens", options.context_tokens, "tokens of a context")
      ->check(CLI::Range(100, 20000));
  app.add_option("--out", options.directory, "folder for report.json, report.svg and logs");
  if (const auto code = parse_command_line(app, argc, argv)) return *code;
  if (const auto done = Demo(options).run(); !done) {
    std::fprintf(stderr, "llmd demo: %s\n", done.error().message.c_str());
    return 1;
  }
  return 0;
}

}  // namespace llmd
