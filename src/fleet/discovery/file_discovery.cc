#include "fleet/file_discovery.h"

#include "base/log.h"
#include "fleet/endpoints_file.h"
#include "io/directory_watch.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <filesystem>
#include <map>
#include <optional>

namespace llmd::fleet {
namespace {

const metric::Definition kReloads{.name = "llmd_discovery_reloads_total",
                                  .kind = metric::Kind::kCounter,
                                  .help = "Reads of a changed endpoints file, by result.",
                                  .labels = {"result"}};
const metric::Definition kBadEntries{
    .name = "llmd_discovery_bad_entries_total",
    .kind = metric::Kind::kCounter,
    .help = "Entries of the endpoints file that were not applied."};

metric::Counter counter_of(metric::Registry& metrics, std::string_view result) {
  return metrics.family(kReloads).counter(std::span(&result, 1));
}

}  // namespace

struct FileDiscovery::State {
  State(Options o, const Clock& c, metric::Registry& metrics)
      : options(std::move(o)),
        directory(directory_of(options.path)),
        clock(c),
        applied(counter_of(metrics, "applied")),
        failed(counter_of(metrics, "failed")),
        bad_entries(metrics.family(kBadEntries).counter({})) {}

  static std::string directory_of(const std::string& path) {
    const auto parent = std::filesystem::path(path).parent_path();
    return parent.empty() ? "." : parent.string();
  }

  const Options options;
  const std::string directory;
  const Clock& clock;
  const metric::Counter applied, failed, bad_entries;

  Fleet* fleet = nullptr;
  std::map<std::string, EndpointSpec> current;  // by id
  uint64_t content_hash = 0;                    // of the content last read, decodable or not
  bool unreadable = false;                      // the last read failed

  io::DirectoryWatch watch;
  std::optional<TimePoint> first_change, last_change;  // since the last read
  TimePoint next_recheck{};

  void open_watch();
  bool due(TimePoint now);
  Status load();
  void reload();
  void apply(const EndpointsFile& file);
};

void FileDiscovery::State::open_watch() {
  if (watch.active()) return;
  auto opened = io::DirectoryWatch::open(directory);
  if (opened)
    watch = std::move(*opened);
  else
    log::warn("endpoints file is read from time to time only", {{"error", opened.error().message}});
}

/// Whether it is time to read the file.
bool FileDiscovery::State::due(TimePoint now) {
  if (watch.poll()) {
    last_change = now;
    if (!first_change) first_change = now;
  }
  const bool settled =
      last_change && (now - *last_change >= kDebounce || now - *first_change >= kDebounceMax);
  return settled || now >= next_recheck;
}

/// Reads the file and applies it. Nothing changes when the content is what was last read, or cannot
/// be used.
Status FileDiscovery::State::load() {
  first_change.reset();
  last_change.reset();
  next_recheck = clock.now() + kRecheckInterval;
  LLMD_TRY_ASSIGN(const std::string text, read_endpoints_file(options.path));
  const uint64_t hash = XXH3_64bits(text.data(), text.size());
  if (!unreadable && hash == content_hash) return {};
  content_hash = hash;
  LLMD_TRY_ASSIGN(const auto file, parse_endpoints_file(text, options.path));
  apply(file);
  applied.add();
  return {};
}

void FileDiscovery::State::reload() {
  const auto status = load();
  const bool missing = !status && status.error().code == Code::kNotFound;
  if (!status && !(missing && unreadable)) {
    failed.add();
    log::error("endpoints file not applied, the endpoints stay as they were",
               {{"error", status.error().message}});
  }
  unreadable = missing;
}

void FileDiscovery::State::apply(const EndpointsFile& file) {
  std::map<std::string, EndpointSpec> next;
  for (const auto& spec : file.endpoints) next.insert_or_assign(spec.ns + "/" + spec.name, spec);
  for (const auto& warning : file.warnings) log::warn("endpoints file", {{"warning", warning}});
  for (const auto& entry : file.bad) {
    const auto previous = current.find(entry.id);
    const bool kept =
        previous != current.end() && next.try_emplace(entry.id, previous->second).second;
    bad_entries.add();
    log::error("entry of the endpoints file not applied",
               {{"error", entry.error}, {"previous_kept", kept}});
  }
  current = std::move(next);
  std::vector<EndpointSpec> specs;
  for (const auto& [id, spec] : current) specs.push_back(spec);
  log::info("endpoints file applied",
            {{"path", options.path}, {"endpoints", specs.size()}, {"bad", file.bad.size()}});
  fleet->set(std::move(specs));
}

FileDiscovery::FileDiscovery(Options options, const Clock& clock, metric::Registry& metrics)
    : state_(std::make_unique<State>(std::move(options), clock, metrics)) {}

FileDiscovery::~FileDiscovery() = default;

Status FileDiscovery::start(Fleet& fleet) {
  State& s = *state_;
  s.fleet = &fleet;
  s.unreadable = true;  // whatever the first content's hash is, it is new
  if (s.options.watch) s.open_watch();
  LLMD_TRY(s.load());
  s.unreadable = false;
  return {};
}

void FileDiscovery::tick() {
  State& s = *state_;
  if (!s.options.watch || !s.due(s.clock.now())) return;
  s.open_watch();
  s.reload();
}

}  // namespace llmd::fleet
