#pragma once

#include <CLI/CLI.hpp>

#include <cstdio>
#include <optional>

namespace llmd {

/// Reads `argv` into the options of `app`, whose name is the command. The value is the code to exit
/// with: 0 after --help, 2 after one line on stderr; none: go on.
inline std::optional<int> parse_command_line(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::fputs(app.help().c_str(), stdout);
    return 0;
  } catch (const CLI::ParseError& e) {
    std::fprintf(stderr, "%s: %s\n", app.get_name().c_str(), e.what());
    return 2;
  }
  return std::nullopt;
}

}  // namespace llmd
