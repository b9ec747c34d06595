#include "command_line.h"
#include "commands.h"

#include "base/text.h"
#include "bench/open_loop.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cstdio>

namespace llmd {

int run_bench(int argc, char** argv) {
  bench::OpenLoopOptions options;
  std::string url;
  double duration_s = 10;
  std::string trace_file;
  CLI::App app(
      "Open-loop load generator: streamed chat requests that arrive at random moments, or "
      "the requests of a recorded trace.",
      "llmd bench");
  app.option_defaults()->always_capture_default();
  app.add_option("--url", url, "the server: http://host:port")->required();
  app.add_option("--model", options.model, "model to ask for")->required();
  app.add_option("--rate", options.rate, "requests a second on average")
      ->check(CLI::Range(0.001, 1e6));
  app.add_option(
      "--trace", trace_file,
      "replays a trace of Mooncake (JSON lines) or Azure (CSV): its arrivals and lengths, "
      "and what prompts have in common, as token ids; --rate, --families and "
      "--context-tokens have no effect");
  app.add_option("--speed", options.speed, "of the trace: 10 makes an hour six minutes")
      ->check(CLI::Range(0.001, 1e6));
  const auto* duration =
      app.add_option("--duration", duration_s, "seconds of arrivals; of a trace all by default")
          ->check(CLI::Range(0.01, 1e6));
  app.add_option("--families", options.families, "contexts that requests share")
      ->check(CLI::Range(1, 1'000'000));
  app.add_option("--context-tokens", options.context_tokens, "tokens of a context")
      ->check(CLI::Range(0, 1'000'000));
  const auto* max_tokens = app.add_option("--max-tokens", options.max_tokens,
                                          "output tokens at most; of a trace all by default")
                               ->check(CLI::Range(1, 1'000'000));
  app.add_option("--in-flight-max", options.in_flight_max, "arrivals beyond it are not sent")
      ->check(CLI::Range(1, 1'000'000));
  app.add_option("--seed", options.seed, "of contexts and arrival times");
  std::vector<std::string> headers;
  app.add_option("--header", headers, "'NAME: VALUE' of every request, repeatable")
      ->take_all()
      ->allow_extra_args(false);
  if (const auto code = parse_command_line(app, argc, argv)) return *code;
  for (const std::string& header : headers) {
    const size_t colon = header.find(':');
    if (colon == 0 || colon == std::string::npos) {
      std::fprintf(stderr, "llmd bench: --header: '%s' is not 'NAME: VALUE'\n", header.c_str());
      return 2;
    }
    options.headers.emplace_back(header.substr(0, colon), trim(header.substr(colon + 1)));
  }
  options.duration = std::chrono::duration_cast<Nanos>(std::chrono::duration<double>(duration_s));
  bench::Trace trace;
  if (!trace_file.empty()) {
    auto read = bench::read_trace(trace_file);
    if (!read) {
      std::fprintf(stderr, "llmd bench: --trace: %s\n", read.error().message.c_str());
      return 2;
    }
    trace = std::move(*read);
    options.trace = &trace;
    if (duration->count() == 0) options.duration = std::chrono::hours(24 * 365);
    if (max_tokens->count() == 0) options.max_tokens = 1'000'000;
  }
  auto target = bench::Target::parse(url);
  if (!target) {
    std::fprintf(stderr, "llmd bench: --url: %s\n", target.error().message.c_str());
    return 2;
  }
  options.target = *target;
  // Each request needs a socket; a few descriptors are the process's own.
  io::raise_file_limit(options.in_flight_max + 64);
  const auto result = bench::run_open_loop(options, [](const bench::OpenLoopResult& r) {
    fmt::print(stderr, "  {} sent, {} ended\n", r.sent, r.ok + r.refused + r.broken + r.timed_out);
  });
  fmt::print("{}", bench::open_loop_table(result));
  return result.ok == result.sent && result.not_sent == 0 ? 0 : 1;
}

}  // namespace llmd
