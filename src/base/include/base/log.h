#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <variant>

namespace llmd::log {

enum class Level : uint8_t { kError, kWarn, kInfo, kVerbose, kDebug, kTrace };
enum class Format : uint8_t { kJson, kConsole };

/// One key of a log line. Values are copied when the line is written.
struct Field {
  std::string_view key;
  std::variant<std::string_view, int64_t, double, bool> value;

  Field(std::string_view k, std::string_view v) : key(k), value(v) {}
  Field(std::string_view k, const char* v) : key(k), value(std::string_view(v)) {}
  Field(std::string_view k, const std::string& v) : key(k), value(std::string_view(v)) {}
  Field(std::string_view k, double v) : key(k), value(v) {}
  Field(std::string_view k, bool v) : key(k), value(v) {}
  template <std::integral T>
  Field(std::string_view k, T v) : key(k), value(static_cast<int64_t>(v)) {}
};

struct Options {
  Level level = Level::kInfo;
  Format format = Format::kJson;
  int fd = 2;                      // where lines go
  size_t ring_bytes = 256 * 1024;  // per thread that logs; a full ring drops the line and counts it
};

/// Starts the writer thread; before it, and after stop(), lines are written at once by the caller.
void start(const Options& options);
/// Writes out everything logged so far and ends the writer thread.
void stop();
/// Writes out everything logged so far, on the calling thread. Not for loops: it takes a lock and
/// may block.
void flush();

bool enabled(Level level);
/// Lines not written: a ring was full, or an error or warning came too often (see write()).
uint64_t dropped_lines();

/// Writes a line: JSON keys level, ts (epoch seconds), msg, `fields`; of an error or warning that
/// repeats, 100 in a second, then each 100th. Threading: any; a copy, no lock, no system call.
void write(Level level, std::string_view message, std::initializer_list<Field> fields = {});

inline void error(std::string_view m, std::initializer_list<Field> f = {}) {
  write(Level::kError, m, f);
}
inline void warn(std::string_view m, std::initializer_list<Field> f = {}) {
  write(Level::kWarn, m, f);
}
inline void info(std::string_view m, std::initializer_list<Field> f = {}) {
  write(Level::kInfo, m, f);
}
inline void debug(std::string_view m, std::initializer_list<Field> f = {}) {
  write(Level::kDebug, m, f);
}

}  // namespace llmd::log
