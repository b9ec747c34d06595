#include "kv_precise/index_counts.h"

#include "base/log.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <string>
#include <sys/mman.h>
#include <unistd.h>

namespace llmd::kv_precise {
namespace {

/// What `work` logs.
template <class Work>
std::string logged(Work work) {
  const int fd = ::memfd_create("log", 0);
  log::start({.fd = fd});
  work();
  log::stop();
  std::string text(static_cast<size_t>(::lseek(fd, 0, SEEK_END)), '\0');
  EXPECT_EQ(::pread(fd, text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
  ::close(fd);
  return text;
}

TEST(IndexCounts, LogsTheirTotals) {
  metric::Registry registry(1);
  IndexCounts counts(registry);
  EXPECT_EQ(nlohmann::json::parse(logged([&] { counts.log(); }))["latency_avg"], 0);
  counts.stored(7);
  counts.removed(2);
  counts.looked_up(3, std::chrono::microseconds(10));
  counts.looked_up(0, std::chrono::microseconds(30));
  auto line = nlohmann::json::parse(logged([&] { counts.log(); }));
  line.erase("ts");
  EXPECT_NEAR(line["latency_sum"].get<double>(), 40e-6, 1e-12);
  EXPECT_NEAR(line["latency_avg"].get<double>(), 20e-6, 1e-12);
  line.erase("latency_sum");
  line.erase("latency_avg");
  EXPECT_EQ(line, nlohmann::json::parse(R"({"level": "info", "msg": "metrics beat",
      "admissions": 7, "evictions": 2, "lookups": 2, "hits": 3, "max_pod_hit_count": 3,
      "latency_count": 2})"));
}

}  // namespace
}  // namespace llmd::kv_precise
