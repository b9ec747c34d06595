#include "metric/process.h"

#include "base/check.h"
#include "base/log.h"

#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <sys/resource.h>
#include <unistd.h>

namespace llmd::metric {
namespace {

constexpr Definition gauge_of(std::string_view name, std::string_view help) {
  return {.name = name, .kind = Kind::kGauge, .help = help};
}

const Definition kCpu{.name = "process_cpu_seconds_total",
                      .kind = Kind::kCounter,
                      .help = "Total user and system CPU time spent in seconds."};
const Definition kResident =
    gauge_of("process_resident_memory_bytes", "Resident memory size in bytes.");
const Definition kVirtual =
    gauge_of("process_virtual_memory_bytes", "Virtual memory size in bytes.");
const Definition kOpenFds = gauge_of("process_open_fds", "Number of open file descriptors.");
const Definition kMaxFds = gauge_of("process_max_fds", "Maximum number of open file descriptors.");
const Definition kStart = gauge_of("process_start_time_seconds",
                                   "Start time of the process since unix epoch in seconds.");
const Definition kThreads = gauge_of("process_threads", "Number of threads of the process.");
const Definition kSoftChecks{
    .name = "llmd_soft_check_failures_total",
    .kind = Kind::kCounter,
    .help = "Internal faults that were survived; each is a bug to report."};
const Definition kDropped{
    .name = "llmd_log_lines_dropped_total",
    .kind = Kind::kCounter,
    .help = "Log lines not written: a thread's ring was full, or an error repeated."};

/// The fields of /proc/self/stat that follow the command name; the first is field 3 of proc(5).
std::vector<std::string> stat_fields() {
  std::ifstream file("/proc/self/stat");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return {};
  std::istringstream rest(text.substr(name_end + 1));
  return {std::istream_iterator<std::string>(rest), {}};
}

double number(const std::vector<std::string>& fields, size_t proc_field) {
  double value = std::nan("");
  if (const size_t at = proc_field - 3; at < fields.size())
    std::from_chars(fields[at].data(), fields[at].data() + fields[at].size(), value);
  return value;
}

double boot_time_seconds() {
  std::ifstream file("/proc/stat");
  for (std::string key; file >> key;) {
    double value = std::nan("");
    if (key == "btime" && file >> value) return value;
    file.ignore(1 << 20, '\n');
  }
  return std::nan("");
}

double open_fds() {
  std::error_code error;
  const std::filesystem::directory_iterator files("/proc/self/fd", error);
  // The listing's own descriptor is among those listed.
  return error ? std::nan("") : static_cast<double>(std::distance(begin(files), end(files)) - 1);
}

double max_fds() {
  rlimit limit{};
  return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? static_cast<double>(limit.rlim_cur)
                                                 : std::nan("");
}

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto of = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return of(usage.ru_utime) + of(usage.ru_stime);
}

class Collector {
 public:
  explicit Collector(Registry& registry) : registry_(registry) {}

  void collect() {
    const auto fields = stat_fields();
    set(kThreads, number(fields, 20));
    set(kVirtual, number(fields, 23));
    set(kResident, number(fields, 24) * static_cast<double>(::sysconf(_SC_PAGESIZE)));
    set(kStart,
        boot_time_seconds() + number(fields, 22) / static_cast<double>(::sysconf(_SC_CLK_TCK)));
    set(kOpenFds, open_fds());
    set(kMaxFds, max_fds());
    raise(kCpu, cpu_, cpu_seconds());
    raise(kSoftChecks, soft_checks_, static_cast<double>(soft_check_failures()));
    raise(kDropped, dropped_, static_cast<double>(log::dropped_lines()));
  }

 private:
  void set(const Definition& definition, double value) {
    if (!std::isnan(value)) registry_.family(definition).gauge({}).set(value);
  }
  /// Brings a counter from `last` to `value`.
  void raise(const Definition& definition, double& last, double value) {
    registry_.family(definition).counter({}).add(value - last);
    last = value;
  }

  Registry& registry_;
  double cpu_ = 0, soft_checks_ = 0, dropped_ = 0;
};

}  // namespace

std::shared_ptr<void> collect_process(Registry& registry) {
  return registry.on_collect(
      [collector = std::make_shared<Collector>(registry)] { collector->collect(); });
}

}  // namespace llmd::metric
