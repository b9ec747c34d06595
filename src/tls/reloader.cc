#include "tls/reloader.h"

#include "base/log.h"
#include "io/directory_watch.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <set>

namespace llmd::tls {
namespace {

const metric::Definition kReloads{.name = "llmd_tls_reloads_total",
                                  .kind = metric::Kind::kCounter,
                                  .help = "Reads of changed TLS files, by result.",
                                  .labels = {"use", "result"}};

std::set<std::string> directories_of(const std::vector<std::string>& files) {
  std::set<std::string> directories;
  for (const auto& file : files) {
    const auto parent = std::filesystem::path(file).parent_path().string();
    directories.insert(parent.empty() ? "." : parent);
  }
  return directories;
}

}  // namespace

class Reloader::Entry final : public io::Pollable {
 public:
  Entry(io::Loop& loop, metric::Registry& metrics, std::shared_ptr<Context> context,
        std::string use, bool watch)
      : loop_(loop),
        context_(std::move(context)),
        use_(std::move(use)),
        applied_(counter(metrics, "applied")),
        failed_(counter(metrics, "failed")),
        timer_(loop) {
    if (!watch) return;
    for (const auto& directory : directories_of(context_->files())) watches_.push_back({directory});
    if (!watches_.empty()) wait();
  }

  ~Entry() {
    for (auto& watched : watches_)
      if (watched.watch.active()) loop_.unwatch(watched.watch.fd(), *this);
  }

  void on_ready(uint32_t) override {
    bool changed = false;
    for (auto& watched : watches_) changed |= watched.watch.poll();
    if (!changed) return;
    const TimePoint now = loop_.clock().now();
    if (!first_change_) first_change_ = now;
    const Nanos left = kSettleMax - (now - *first_change_);
    timer_.arm(std::max(std::min(kSettle, left), Nanos(0)), [this] { look(); });
  }

  void reload() {
    first_change_.reset();
    const auto changed = context_->reload();
    if (!changed) {
      if (changed.error().message == last_error_) return;
      last_error_ = changed.error().message;
      failed_.add();
      log::error("TLS files not loaded, the old ones stay in use",
                 {{"use", use_}, {"error", last_error_}});
      return;
    }
    if (*changed) {
      applied_.add();
      log::info("TLS files loaded", {{"use", use_}});
    }
    last_error_.clear();
  }

 private:
  struct Watched {
    std::string directory;
    io::DirectoryWatch watch;
  };

  metric::Counter counter(metric::Registry& metrics, std::string_view result) const {
    return metrics.family(kReloads).counter(std::array<std::string_view, 2>{use_, result});
  }

  void look() {
    reload();
    wait();
  }

  /// Until the next change or recheck.
  void wait() {
    for (auto& watched : watches_) open(watched);
    timer_.arm(kRecheck, [this] { look(); });
  }

  void open(Watched& watched) {
    if (watched.watch.active()) return;
    auto opened = io::DirectoryWatch::open(watched.directory);
    if (!opened) {
      log::warn("TLS files are looked at from time to time only",
                {{"use", use_}, {"error", opened.error().message}});
      return;
    }
    watched.watch = std::move(*opened);
    loop_.watch(watched.watch.fd(), *this);
  }

  io::Loop& loop_;
  const std::shared_ptr<Context> context_;
  const std::string use_;
  const metric::Counter applied_, failed_;
  std::list<Watched> watches_;
  std::optional<TimePoint> first_change_;  // since the files were last read
  std::string last_error_;
  io::Timer timer_;
};

Reloader::Reloader(io::Loop& loop, metric::Registry& metrics) : loop_(loop), metrics_(metrics) {}

Reloader::~Reloader() = default;

void Reloader::add(std::shared_ptr<Context> context, std::string use, bool watch) {
  entries_.emplace_back(loop_, metrics_, std::move(context), std::move(use), watch);
}

void Reloader::reload() {
  for (auto& entry : entries_) entry.reload();
}

}  // namespace llmd::tls
