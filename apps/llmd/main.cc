#include "commands.h"
#include "huge_heap.h"

#include "base/text.h"

#include <cstdio>
#include <span>
#include <string_view>

namespace {

struct Command {
  std::string_view name;
  int (*run)(int argc, char** argv);
  std::string_view summary;
  bool serves = false;
};

constexpr Command kCommands[] = {
    {"router", llmd::run_router, "reverse proxy and endpoint picker in one process", true},
    {"epp", llmd::run_epp, "endpoint picker for Envoy: an ext-proc server", true},
    {"sim", llmd::run_sim, "simulated model servers on real sockets", true},
    {"tokenizer", llmd::run_tokenizer, "the tokens of prompts over HTTP, gRPC and a unix socket",
     true},
    {"kv-indexer", llmd::run_kv_indexer, "how much of a prompt servers hold, over HTTP and gRPC",
     true},
    {"check", llmd::run_check, "validate a configuration and print the resolved graph"},
    {"explain", llmd::run_explain, "why a recent request went where it went"},
    {"bench", llmd::run_bench, "open-loop load generator for OpenAI endpoints"},
    {"demo", llmd::run_demo, "the prefix-cache experiment: random against prefix-aware routing"},
    {"demo-flow", llmd::run_demo_flow, "a saturated fleet with and without flow control"},
};

void print_usage(FILE* out) {
  std::fputs("usage: llmd COMMAND [FLAGS]\n\n", out);
  for (const auto& c : kCommands)
    std::fprintf(out, "  %-10.*s %.*s\n", static_cast<int>(c.name.size()), c.name.data(),
                 static_cast<int>(c.summary.size()), c.summary.data());
  std::fputs(
      "\nllmd COMMAND --help lists a command's flags; llmd --version says which one this is.\n",
      out);
}

int run(const Command& command, int argc, char** argv) {
#ifdef LLMD_HUGE_HEAP
  if (command.serves) return llmd::with_huge_heap([&] { return command.run(argc, argv); });
#endif
  return command.run(argc, argv);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view name = argc > 1 ? argv[1] : "";
  for (const auto& c : kCommands)
    if (c.name == name) return run(c, argc - 1, argv + 1);
  if (name == "--version" || name == "-V" || name == "version") {
    std::puts("llmd " LLMD_VERSION " (" LLMD_COMMIT ")");
    return 0;
  }
  if (name == "--help" || name == "-h" || name == "help") {
    print_usage(stdout);
    return 0;
  }
  std::string_view names[std::size(kCommands)];
  for (size_t i = 0; i < std::size(kCommands); ++i) names[i] = kCommands[i].name;
  if (!name.empty())
    std::fprintf(stderr, "llmd: unknown command '%.*s'%s\n\n", static_cast<int>(name.size()),
                 name.data(), llmd::suggestion(name, names).c_str());
  print_usage(stderr);
  return 2;
}
