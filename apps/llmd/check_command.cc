#include "command_line.h"
#include "commands.h"
#include "plugin_list.h"

#include "base/clock.h"
#include "base/text.h"
#include "config/dump.h"
#include "config/loader.h"
#include "config/objects_dir.h"
#include "fleet/endpoints_file.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cstdio>

namespace llmd {
namespace {

constexpr int kBadConfiguration = 2;

struct Options {
  std::string config_file;
  std::string config_text;
  bool allow_experimental = false;
  std::string format = "text";
  std::string scrape_interval = "50ms";
  std::string endpoints_file;
  std::string objects_dir;
  std::string pool_name = "epp";
  bool plugins_reference = false;
};

int refuse(const std::string& message) {
  std::fprintf(stderr, "llmd check: %s\n", message.c_str());
  return kBadConfiguration;
}

/// The document to check and its name in messages.
Result<std::pair<std::string, std::string>> document_of(const Options& options) {
  if (!options.config_text.empty())
    return std::pair{options.config_text, std::string("--config-text")};
  if (options.config_file.empty())
    return std::pair{std::string(config::default_document()), std::string("built-in default")};
  LLMD_TRY_ASSIGN(auto text, config::read_document(options.config_file));
  return std::pair{std::move(text), options.config_file};
}

std::string in_lines(std::string_view before, const std::vector<std::string>& texts) {
  std::string lines;
  for (const auto& text : texts) lines.append(before).append(text).append("\n");
  return lines;
}

/// What a router would serve. Every entry that it would leave out is an error.
Result<std::string> check_endpoints(const std::string& path) {
  LLMD_TRY_ASSIGN(const std::string text, fleet::read_endpoints_file(path));
  LLMD_TRY_ASSIGN(const auto file, fleet::parse_endpoints_file(text, path));
  std::string faults;
  for (const auto& entry : file.bad) faults += (faults.empty() ? "" : "\n") + entry.error;
  if (!faults.empty()) return fail(Code::kBadRequest, faults);
  return fmt::format("endpoints {}\n  {}\n", path, file.endpoints.size()) +
         in_lines("  warning: ", file.warnings);
}

Result<std::string> check_objects(const std::string& directory, const std::string& pool) {
  LLMD_TRY_ASSIGN(const auto read, config::read_objects(directory, pool));
  return fmt::format("objects {}\n  {} objectives, {} rewrites of pool {}\n", directory,
                     read.objectives.size(), read.rewrites.size(), pool) +
         in_lines("  warning: ", read.warnings);
}

Result<std::string> check(const Options& options) {
  const plugin::Registry registry = builtin_plugins();
  if (options.plugins_reference) return config::plugins_reference(registry);
  if (!options.config_file.empty() && !options.config_text.empty())
    return fail(Code::kBadRequest, "--config-file and --config-text exclude each other");
  const auto interval = parse_duration(options.scrape_interval);
  if (!interval)
    return fail(Code::kBadRequest, "--refresh-metrics-interval: " + interval.error().message);
  LLMD_TRY_ASSIGN(const auto document, document_of(options));
  plugin::StateStore state;
  metric::Registry metrics(1);
  const config::Environment environment{.registry = registry,
                                        .state = state,
                                        .metrics = metrics,
                                        .clock = real_clock(),
                                        .allow_experimental = options.allow_experimental,
                                        .scrape_interval = *interval};
  LLMD_TRY_ASSIGN(const auto loaded, config::load(document.first, document.second, environment));
  std::string files;
  if (!options.endpoints_file.empty()) {
    LLMD_TRY_ASSIGN(files, check_endpoints(options.endpoints_file));
  }
  if (!options.objects_dir.empty()) {
    LLMD_TRY_ASSIGN(const auto objects, check_objects(options.objects_dir, options.pool_name));
    files += objects;
  }
  // The YAML is there to be loaded again.
  return options.format == "yaml" ? config::to_yaml(loaded) : config::to_text(loaded) + files;
}

}  // namespace

int run_check(int argc, char** argv) {
  Options options;
  CLI::App app("Validates a configuration and prints the resolved graph.", "llmd check");
  app.add_option("--config-file", options.config_file,
                 "EndpointPickerConfig, YAML or JSON; without one the built-in default is checked");
  app.add_option("--config-text", options.config_text, "the same as text");
  app.add_flag("--allow-experimental-plugins", options.allow_experimental,
               "let Alpha plugins load");
  app.add_option("--refresh-metrics-interval", options.scrape_interval,
                 "scrape interval that thresholds are compared with")
      ->capture_default_str();
  app.add_option("--endpoints-file", options.endpoints_file, "file of endpoints to check too");
  app.add_option("--objects-dir", options.objects_dir,
                 "directory of InferenceObjective and InferenceModelRewrite files to check too");
  app.add_option("--pool-name", options.pool_name, "the pool whose objects count")
      ->capture_default_str();
  app.add_option("--format", options.format, "text, or yaml that loads to the same graph")
      ->check(CLI::IsMember({"text", "yaml"}))
      ->capture_default_str();
  app.add_flag("--plugins-reference", options.plugins_reference,
               "print the reference page of all plugin types instead");
  if (const auto code = parse_command_line(app, argc, argv)) return *code;
  const auto output = check(options);
  if (!output) return refuse(output.error().message);
  std::fwrite(output->data(), 1, output->size(), stdout);
  return 0;
}

}  // namespace llmd
