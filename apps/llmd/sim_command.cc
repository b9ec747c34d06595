#include "commands.h"

#include "sim/server.h"

#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

namespace llmd {
namespace {

/// Writes `text` under a temporary name first, so that a watcher never sees half a file.
bool write_file(const std::string& path, const std::string& text) {
  const std::string temporary = path + ".tmp";
  std::ofstream out(temporary, std::ios::binary);
  out << text;
  out.close();
  return out && std::rename(temporary.c_str(), path.c_str()) == 0;
}

int failed(const std::string& message) {
  std::fprintf(stderr, "llmd sim: %s\n", message.c_str());
  return 2;
}

void say_where(const std::vector<sim::EndpointPlan>& endpoints) {
  const auto& first = endpoints.front();
  const auto& last = endpoints.back();
  std::string text = fmt::format("{} simulated server{} on {}:{}", endpoints.size(),
                                 endpoints.size() == 1 ? "" : "s", first.address, first.port);
  if (endpoints.size() > 1) text += fmt::format(" to {}:{}", last.address, last.port);
  std::fprintf(stderr, "llmd sim: %s\n", text.c_str());
}

}  // namespace

int run_sim(int argc, char** argv) {
  const std::vector<std::string> args(argv + 1, argv + argc);
  const auto settings = sim::parse_settings(args, sim::process_environment());
  if (!settings) return failed(settings.error().message);
  if (settings->help) {
    std::fputs(sim::help_text().c_str(), stdout);
    return 0;
  }
  for (const std::string& warning : settings->warnings)
    std::fprintf(stderr, "llmd sim: %s\n", warning.c_str());

  // Blocked before any thread starts, so that sigwait() below is the only one to get them.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);

  auto fleet = sim::Fleet::start(*settings);
  if (!fleet) return failed(fleet.error().message);
  const auto& endpoints = (*fleet)->endpoints();
  if (!settings->endpoints_out.empty() &&
      !write_file(settings->endpoints_out, sim::endpoints_file(endpoints)))
    return failed(fmt::format("--endpoints-out: cannot write '{}'", settings->endpoints_out));
  say_where(endpoints);

  int signal_number = 0;
  sigwait(&signals, &signal_number);
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);  // a second signal ends the process at once
  (*fleet)->stop(std::chrono::seconds(30));
  return 0;
}

}  // namespace llmd
