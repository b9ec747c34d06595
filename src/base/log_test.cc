#include "base/log.h"

#include "base/check.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fcntl.h>
#include <limits>
#include <set>
#include <sstream>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace llmd::log {
namespace {

/// Logging into an anonymous file between construction and lines().
class Capture {
 public:
  explicit Capture(Options options = {}) : fd_(::memfd_create("log", 0)) {
    options.fd = fd_;
    start(options);
  }
  ~Capture() {
    stop();
    ::close(fd_);
  }
  /// Everything written so far, one element a line.
  std::vector<std::string> lines() {
    flush();
    std::string text(static_cast<size_t>(::lseek(fd_, 0, SEEK_END)), '\0');
    EXPECT_EQ(::pread(fd_, text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
    std::vector<std::string> out;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) out.push_back(line);
    return out;
  }

 private:
  int fd_;
};

/// `text` with every digit as '0', to compare the form of time stamps.
std::string shape(std::string text) {
  for (char& c : text)
    if (c >= '0' && c <= '9') c = '0';
  return text;
}

/// The line without its time stamp, which must look like epoch seconds.
std::string without_time(const std::string& line) {
  constexpr std::string_view kShape = "\"ts\":0000000000.000000,";
  const size_t at = line.find("\"ts\":");
  if (at == std::string::npos) return line;
  EXPECT_EQ(shape(line.substr(at, kShape.size())), kShape);
  return line.substr(0, at) + line.substr(at + kShape.size());
}

TEST(Log, WritesJsonWithFieldsInOrder) {
  Capture capture;
  info("request handled",
       {{"endpoint", "default/a"}, {"tokens", 12}, {"hit", 0.5}, {"stream", true}});
  const auto lines = capture.lines();
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(
      without_time(lines[0]),
      R"({"level":"info","msg":"request handled","endpoint":"default/a","tokens":12,"hit":0.5,"stream":true})");
}

TEST(Log, SamplesErrorsAndWarningsOnly) {
  Capture capture;
  const uint64_t before = dropped_lines();
  constexpr int kLines = 1000;
  for (int i = 0; i < kLines; ++i) {
    error("sampled error");
    info("never sampled");
  }
  const auto left_out = static_cast<int>(dropped_lines() - before);
  EXPECT_GE(left_out, 1) << "a thousand errors in a moment";
  EXPECT_EQ(capture.lines().size(), static_cast<size_t>(2 * kLines - left_out));
}

TEST(Log, EscapesMessageAndValues) {
  Capture capture;
  info("a \"b\"\n", {{"k\\", std::string("\x01\xff")}});
  EXPECT_EQ(without_time(capture.lines().at(0)),
            "{\"level\":\"info\",\"msg\":\"a \\\"b\\\"\\n\",\"k\\\\\":\"\\u0001\uFFFD\"}");
}

TEST(Log, SpellsNumbersThatJsonLacksAsText) {
  Capture capture;
  const double infinity = std::numeric_limits<double>::infinity();
  info("x", {{"a", std::nan("")}, {"b", infinity}, {"c", -infinity}});
  EXPECT_EQ(without_time(capture.lines().at(0)),
            R"({"level":"info","msg":"x","a":"NaN","b":"+Inf","c":"-Inf"})");
}

TEST(Log, LeavesOutLevelsBelowTheLimit) {
  Capture capture({.level = Level::kWarn});
  info("info");
  debug("debug");
  warn("warn");
  error("error");
  const auto lines = capture.lines();
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_TRUE(lines[0].starts_with(R"({"level":"warn")")) << lines[0];
  EXPECT_TRUE(lines[1].starts_with(R"({"level":"error")")) << lines[1];
  EXPECT_FALSE(enabled(Level::kInfo));
}

TEST(Log, PrintsVerboseAsInfo) {
  Capture capture({.level = Level::kTrace});
  write(Level::kVerbose, "v");
  write(Level::kTrace, "t");
  const auto lines = capture.lines();
  EXPECT_TRUE(lines.at(0).starts_with(R"({"level":"info")"));
  EXPECT_TRUE(lines.at(1).starts_with(R"({"level":"trace")"));
}

TEST(Log, WritesConsoleForm) {
  Capture capture({.format = Format::kConsole});
  warn("queue full", {{"depth", 3}, {"name", "a b"}});
  const std::string line = capture.lines().at(0);
  EXPECT_EQ(shape(line), R"(0000-00-00T00:00:00.000000Z warn  queue full depth=0 name="a b")");
}

TEST(Log, DropsAndCountsLinesThatDoNotFit) {
  Capture capture({.ring_bytes = 1024});
  const uint64_t before = dropped_lines();
  std::thread([] {
    info(std::string(2000, 'x'));
    info("short");
  }).join();
  EXPECT_EQ(dropped_lines(), before + 1);
  const auto lines = capture.lines();
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find("short"), std::string::npos);
}

TEST(Log, KeepsLinesWholeWhereTheRingWraps) {
  Capture capture({.ring_bytes = 1024});
  std::thread([] {
    for (int i = 0; i < 200; ++i) {
      info("line", {{"i", i}, {"pad", std::string(static_cast<size_t>(i), 'p')}});
      flush();
    }
  }).join();
  const auto lines = capture.lines();
  ASSERT_EQ(lines.size(), 200u);
  for (int i = 0; i < 200; ++i)
    EXPECT_EQ(without_time(lines[i]),
              "{\"level\":\"info\",\"msg\":\"line\",\"i\":" + std::to_string(i) + ",\"pad\":\"" +
                  std::string(static_cast<size_t>(i), 'p') + "\"}");
}

TEST(Log, TakesLinesFromManyThreadsAndLosesNone) {
  Capture capture;
  const uint64_t dropped = dropped_lines();
  {
    std::vector<std::jthread> threads;
    threads.reserve(4);
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([t] {
        for (int i = 0; i < 500; ++i) info("m", {{"id", t * 1000 + i}});
      });
  }
  std::set<std::string> lines;
  for (const auto& line : capture.lines()) lines.insert(without_time(line));
  EXPECT_EQ(lines.size() + (dropped_lines() - dropped), 2000u);
  EXPECT_EQ(dropped_lines(), dropped);
}

TEST(Log, StopWritesOutWhatThreadsLeft) {
  const int fd = ::memfd_create("log", 0);
  start({.fd = fd});
  std::thread([] { info("from a thread that is gone"); }).join();
  info("last");
  stop();
  info("after stop");
  EXPECT_GT(::lseek(fd, 0, SEEK_END), 0);
  std::string text(4096, '\0');
  text.resize(static_cast<size_t>(::pread(fd, text.data(), text.size(), 0)));
  for (const auto part : {"from a thread that is gone", "last", "after stop"})
    EXPECT_NE(text.find(part), std::string::npos) << part;
  ::close(fd);
}

TEST(SoftCheck, CountsAndLogsAtMostOnceASecond) {
  Capture capture;
  const uint64_t before = soft_check_failures();
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(SOFT_CHECK(1 + 1 == 3));
  EXPECT_TRUE(SOFT_CHECK(true));
  EXPECT_EQ(soft_check_failures(), before + 10);
  const auto lines = capture.lines();
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find(R"("expression":"1 + 1 == 3")"), std::string::npos) << lines[0];
}

TEST(CheckDeathTest, EndsTheProcessAndNamesTheExpression) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(CHECK(2 < 1), "check failed: 2 < 1");
}

}  // namespace
}  // namespace llmd::log
