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
      read_(std::move(read)),
      successes_(counter(environment.metrics, "success")),
      failures_(counter(environment.metrics, "failure")),
      tried_(std::move(current)),
      candidate_(tried_) {}

void Reloader::tick() {
  auto text = read_(path_);
  if (!text) {
    if (readable_) failed(text.error());
    readable_ = false;
    return;
  }
  readable_ = true;
  const bool stable = *text == candidate_;
  candidate_ = std::move(*text);
  if (stable && candidate_ != tried_) load_text(candidate_);
}

void Reloader::reload() {
  auto text = read_(path_);
  if (!text) return failed(text.error());
  load_text(std::move(*text));
}

void Reloader::load_text(std::string text) {
  auto loaded = load(text, path_, environment_);
  tried_ = std::move(text);
  candidate_ = tried_;
  if (!loaded) return failed(loaded.error());
  successes_.add();
  log::info("configuration loaded", {{"file", path_}});
  for (const auto& warning : loaded->pipeline->warnings) log::warn(warning);
  publish_(std::move(*loaded));
}

void Reloader::failed(const Error& error) {
  failures_.add();
  log::error("configuration not loaded, the last one stays", {{"error", error.message}});
}

}  // namespace llmd::config
