#include "demo_stage.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <thread>

namespace llmd {
namespace {

Result<bench::Target> local(uint16_t port) {
  return bench::Target::parse(fmt::format("http://127.0.0.1:{}", port));
}

}  // namespace

Status DemoStage::open() {
  std::error_code error;
  std::filesystem::create_directories(directory_, error);
  if (error)
    return fail(Code::kInternal, fmt::format("cannot make {}: {}", directory_, error.message()));
  return {};
}

std::string DemoStage::path(std::string_view file) const {
  return fmt::format("{}/{}", directory_, file);
}

Status DemoStage::write(std::string_view file, std::string_view text, bool quiet) {
  const std::string to = path(file);
  std::ofstream out(to, std::ios::binary | std::ios::trunc);
  out << text;
  out.close();
  if (!out) return fail(Code::kInternal, "cannot write " + to);
  if (!quiet) fmt::print("wrote {}\n", to);
  return {};
}

/// Polls until `path` answers 200, for 20 s at most.
Status DemoStage::wait_for(ChildProcess& child, const bench::Target& target, std::string_view path,
                           std::string_view log) {
  constexpr int kTries = 400;
  for (int i = 0; i < kTries; ++i) {
    if (!child.alive())
      return fail(Code::kInternal, fmt::format("a process ended early, see {}", log));
    if (const auto answer = client_.get(target, path); answer && answer->status == 200) return {};
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return fail(Code::kInternal, fmt::format("{}{} does not answer, see {}", target.host, path, log));
}

Status DemoStage::start_engines(int count, std::span<const std::string> flags) {
  LLMD_TRY_ASSIGN(const uint16_t port, find_free_ports(count));
  std::vector<std::string> arguments = {"sim",
                                        "--host",
                                        "127.0.0.1",
                                        "--port",
                                        std::to_string(port),
                                        "--replicas",
                                        std::to_string(count)};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  const std::string log = path("sim.log");
  LLMD_TRY_ASSIGN(auto child, ChildProcess::start(arguments, log));
  engines_process_.emplace(std::move(child));
  for (int i = 0; i < count; ++i) {
    LLMD_TRY_ASSIGN(auto engine, local(static_cast<uint16_t>(port + i)));
    LLMD_TRY(wait_for(*engines_process_, engine, "/health", log));
    engines_.push_back(std::move(engine));
  }
  return {};
}

Result<DemoStage::Router> DemoStage::start_router(std::string_view name,
                                                  std::span<const std::string> flags) {
  LLMD_TRY_ASSIGN(const uint16_t port, find_free_ports(2));
  const auto metrics_port = static_cast<uint16_t>(port + 1);
  std::vector<std::string> arguments = {"router",
                                        "--host",
                                        "127.0.0.1",
                                        "--port",
                                        std::to_string(port),
                                        "--metrics-port",
                                        std::to_string(metrics_port),
                                        "--loops",
                                        "1",
                                        "--drain-timeout",
                                        "0"};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  for (const auto& engine : engines_) {
    arguments.emplace_back("--endpoint");
    arguments.push_back("http://" + engine.host);
  }
  const std::string log = path(fmt::format("{}.log", name));
  LLMD_TRY_ASSIGN(auto process, ChildProcess::start(arguments, log));
  LLMD_TRY_ASSIGN(const auto admin, local(metrics_port));
  LLMD_TRY(wait_for(process, admin, "/readyz", log));
  LLMD_TRY_ASSIGN(auto target, local(port));
  return Router{std::move(process), std::move(target)};
}

}  // namespace llmd
