#include "config/reload.h"

#include "base/log.h"

#include <array>

namespace llmd::config {
namespace {

const metric::Definition kReloads = {
    .name = "llmd_config_reloads_total",
    .kind = metric::Kind::kCounter,
    .help = "Attempts to load a changed configuration.",
    .labels = {"result"},
    .buckets = {},
    .twins = {},
};

metric::Counter counter(metric::Registry& metrics, std::string_view result) {
  return metrics.family(kReloads).counter(std::array{result});
}

}  // namespace

Reloader::Reloader(std::string path, std::string current, const Environment& environment,
                   Publish publish, Read read)
    : path_(std::move(path)),
      environment_(environment),
      publish_(std::move(publish)),
      successes_(counter(environment.metrics, "success")),
      failures_(counter(environment.metrics, "failure")),
      file_(path_, std::move(current), std::move(read),
            [this](const Result<std::string>& text) { take(text); }) {}

void Reloader::take(const Result<std::string>& text) {
  if (!text) return failed(text.error());
  auto loaded = load(*text, path_, environment_);
  if (!loaded) return failed(loaded.error());
  successes_.add();
  log::info("configuration loaded", {{"file", path_}});
  publish_(std::move(*loaded));
}

void Reloader::failed(const Error& error) {
  failures_.add();
  log::error("configuration not loaded, the last one stays", {{"error", error.message}});
}

}  // namespace llmd::config
