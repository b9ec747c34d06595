#pragma once

#include "base/text.h"

#include <CLI/CLI.hpp>

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace llmd {

/// What to say about the first argument that `app` does not know: flags before other words.
/// Requires: there is one.
inline std::string unknown_argument(const CLI::App& app) {
  const std::vector<std::string> unknown = app.remaining();
  for (const std::string& argument : unknown) {
    if (!argument.starts_with('-')) continue;
    const std::string name = argument.substr(0, argument.find('='));
    std::vector<std::string> flags;
    for (const CLI::Option* option : app.get_options())
      if (!option->get_group().empty())  // hidden ones are flags of the past
        for (const std::string& flag : option->get_lnames()) flags.push_back("--" + flag);
    const std::vector<std::string_view> candidates(flags.begin(), flags.end());
    return "unknown flag '" + name + "'" + suggestion(name, candidates);
  }
  return "unexpected argument '" + unknown.front() + "'";
}

/// A flag whose value is a port.
inline CLI::Option* add_port(CLI::App& app, const char* name, uint16_t& port, const char* help) {
  return app.add_option(name, port, help)->check(CLI::Range(0, 65'535));
}

/// Reads `argv` into the options of `app`, whose name is the command. The value is the code to exit
/// with: 0 after --help, 2 after one line on stderr; none: go on.
inline std::optional<int> parse_command_line(CLI::App& app, int argc, char** argv) {
  const auto refuse = [&app](const std::string& why) {
    std::fprintf(stderr, "%s: %s\n", app.get_name().c_str(), why.c_str());
    return 2;
  };
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::fputs(app.help().c_str(), stdout);
    return 0;
  } catch (const CLI::ParseError& e) {
    // A misspelt flag is the likely cause of whatever else is wrong.
    return refuse(app.remaining().empty() ? e.what() : unknown_argument(app));
  }
  return std::nullopt;
}

}  // namespace llmd
