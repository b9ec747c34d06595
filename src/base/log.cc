#include "base/log.h"

#include "json_escape.h"
#include "log_sampler.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/mutex.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <charconv>
#include <cmath>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <pthread.h>
#include <thread>
#include <unistd.h>
#include <vector>

// Every thread that logs owns a ring of bytes. It formats a line straight into the free part of its
// ring and publishes the line by moving `head`; whoever holds the drain mutex (the writer thread,
// or the caller while there is none) copies published bytes out and moves `tail`. Invariants:
//   1. tail <= head <= tail + capacity; both only grow.
//   2. Bytes in [tail, head) are whole lines.
//   3. Only the owner writes head; only the holder of the drain mutex writes tail.
namespace llmd::log {
namespace {

/// Waking is what the writer thread costs, so it sleeps long; a ring that is half full wakes it.
constexpr auto kDrainInterval = std::chrono::milliseconds(250);

class Ring {
 public:
  explicit Ring(size_t bytes)
      : capacity_(std::bit_ceil(std::max<size_t>(bytes, 1024))),
        data_(std::make_unique_for_overwrite<char[]>(2 * capacity_)) {}

  /// Appends what is published to `out` and frees it.
  void drain(std::string& out) {
    const uint64_t head = head_.load(std::memory_order_seq_cst);
    const uint64_t tail = tail_.load(std::memory_order_relaxed);
    const size_t from = tail & (capacity_ - 1);
    const size_t length = head - tail;
    const size_t first = std::min(length, capacity_ - from);
    out.append(data_.get() + from, first);
    out.append(data_.get(), length - first);
    tail_.store(head, std::memory_order_release);
  }

  std::atomic<bool> owner_gone{false};

 private:
  friend class LineWriter;
  const size_t capacity_;
  /// The ring, and as much again, where a line that crosses the ring's end is written in one piece.
  const std::unique_ptr<char[]> data_;
  alignas(64) std::atomic<uint64_t> head_{0};
  alignas(64) std::atomic<uint64_t> tail_{0};
};

/// Writes one line into the ring; nothing is visible to the drain before commit().
class LineWriter {
 public:
  explicit LineWriter(Ring& ring)
      : ring_(ring),
        head_(ring.head_.load(std::memory_order_relaxed)),
        free_(ring.tail_.load(std::memory_order_acquire) + ring.capacity_ - head_),
        begin_(ring.data_.get() + (head_ & (ring.capacity_ - 1))),
        at_(begin_) {}

  void put(std::string_view piece) {
    if (piece.size() > room()) {
      full_ = true;
      return;
    }
    std::memcpy(at_, piece.data(), piece.size());
    at_ += piece.size();
  }

  /// The inside of a JSON string.
  void put_escaped(std::string_view text) {
    escape_json(text, [this](std::string_view piece) { put(piece); });
  }

  bool ring_half_full() const { return room() < ring_.capacity_ / 2; }

  /// False when the line did not fit, and so is not written.
  bool commit() {
    if (full_) return false;
    const char* ring_end = ring_.data_.get() + ring_.capacity_;
    if (at_ > ring_end)
      std::memcpy(ring_.data_.get(), ring_end, static_cast<size_t>(at_ - ring_end));
    ring_.head_.store(head_ + written(), std::memory_order_seq_cst);
    return true;
  }

 private:
  size_t written() const { return static_cast<size_t>(at_ - begin_); }
  size_t room() const { return free_ - written(); }

  Ring& ring_;
  const uint64_t head_;
  const size_t free_;
  char* const begin_;
  char* at_;
  bool full_ = false;
};

/// Bytes of the writer thread's output, unchanged, to a file descriptor.
class Sink {
 public:
  explicit Sink(int fd) : file_(::fdopen(::dup(fd), "w")) {
    if (file_ == nullptr) return;
    sink_.emplace(file_.get());
    sink_->set_formatter(
        std::make_unique<spdlog::pattern_formatter>("%v", spdlog::pattern_time_type::utc, ""));
  }
  void write(std::string_view lines) {
    if (sink_ && !lines.empty())
      sink_->log({spdlog::string_view_t(), spdlog::level::info, {lines.data(), lines.size()}});
  }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  const std::unique_ptr<std::FILE, Close> file_;
  std::optional<spdlog::sinks::stdout_sink_base<spdlog::details::console_nullmutex>> sink_;
};

/// Moves everything published into `out` and drops the rings of threads that are gone.
void drain_rings(std::vector<std::shared_ptr<Ring>>& rings, std::string& out) {
  std::erase_if(rings, [&](const auto& ring) {
    // Read before draining: what the owner wrote last is then seen by this drain.
    const bool gone = ring->owner_gone.load(std::memory_order_acquire);
    ring->drain(out);
    return gone;
  });
}

struct State {
  std::atomic<Level> level{Level::kInfo};
  std::atomic<Format> format{Format::kJson};
  std::atomic<bool> running{false};
  std::atomic<uint64_t> dropped{0};
  LogSampler sampler;
  std::atomic<size_t> ring_bytes{Options().ring_bytes};

  Mutex drain_mutex;
  std::unique_ptr<Sink> sink LLMD_GUARDED_BY(drain_mutex) = std::make_unique<Sink>(STDERR_FILENO);
  std::string batch LLMD_GUARDED_BY(drain_mutex);
  std::vector<std::shared_ptr<Ring>> rings LLMD_GUARDED_BY(drain_mutex);

  std::condition_variable_any wake;
  std::thread writer;

  void drain() LLMD_REQUIRES(drain_mutex) {
    batch.clear();
    drain_rings(rings, batch);
    sink->write(batch);
  }

  void run() {
    pthread_setname_np(pthread_self(), "log");
    const MutexLock lock(drain_mutex);
    while (running.load(std::memory_order_relaxed)) {
      wake.wait_for(drain_mutex, kDrainInterval);
      drain();
    }
  }
};

/// Never destroyed, so that threads and static destructors may log until the process ends.
State& state() {
  static State& s = *new State;
  return s;
}

/// Null before a thread's first line and after its thread-local destructors.
thread_local Ring* thread_ring = nullptr;

struct RingRelease {
  std::shared_ptr<Ring> ring;
  ~RingRelease() {
    thread_ring = nullptr;
    if (ring) ring->owner_gone.store(true, std::memory_order_release);
  }
};

Ring& own_ring() {
  if (thread_ring == nullptr) [[unlikely]] {
    thread_local RingRelease release;
    auto ring = std::make_shared<Ring>(state().ring_bytes.load(std::memory_order_relaxed));
    thread_ring = ring.get();
    release.ring = ring;
    const MutexLock lock(state().drain_mutex);
    state().rings.push_back(std::move(ring));
  }
  return *thread_ring;
}

std::string_view level_name(Level level) {
  switch (level) {
    case Level::kError:
      return "error";
    case Level::kWarn:
      return "warn";
    case Level::kInfo:
    case Level::kVerbose:
      return "info";
    case Level::kDebug:
      return "debug";
    case Level::kTrace:
      return "trace";
  }
  return "info";
}

constexpr uint32_t kMicro = 1'000'000;

/// The six digits of a number of millionths. Returns their end.
char* put_micros(char* at, uint32_t micros) {
  for (int i = 5; i >= 0; --i, micros /= 10) at[i] = static_cast<char>('0' + micros % 10);
  return at + 6;
}

/// Numbers of everyday size as decimals with microsecond precision, by integer arithmetic: the
/// shortest round-trip form costs cold tables on every line. Returns nullptr for others.
char* put_decimal(char* at, double v) {
  constexpr double kLargest = 1e9;
  if (!(v >= 0 && v < kLargest)) return nullptr;
  const auto micros = static_cast<uint64_t>(std::lround(v * kMicro));
  if (micros == 0 && v != 0) return nullptr;
  at = std::to_chars(at, at + 24, micros / kMicro).ptr;
  const auto rest = static_cast<uint32_t>(micros % kMicro);
  if (rest == 0) return at;
  *at = '.';
  at = put_micros(at + 1, rest);
  while (at[-1] == '0') --at;
  return at;
}

/// The value as JSON; a string for what JSON has no number for.
void put_value(LineWriter& line, const Field& field) {
  if (const auto* text = std::get_if<std::string_view>(&field.value)) {
    line.put("\"");
    line.put_escaped(*text);
    line.put("\"");
    return;
  }
  char digits[32];
  const char* end = digits;
  if (const auto* integer = std::get_if<int64_t>(&field.value)) {
    end = std::to_chars(digits, digits + sizeof digits, *integer).ptr;
  } else if (const auto* truth = std::get_if<bool>(&field.value)) {
    return line.put(*truth ? "true" : "false");
  } else {
    const double real = std::get<double>(field.value);
    if (!std::isfinite(real))
      return line.put(std::isnan(real) ? "\"NaN\"" : real > 0 ? "\"+Inf\"" : "\"-Inf\"");
    end = put_decimal(digits, real);
    if (end == nullptr) end = std::to_chars(digits, digits + sizeof digits, real).ptr;
  }
  line.put({digits, static_cast<size_t>(end - digits)});
}

void put_json(LineWriter& line, Level level, WallTime now, std::string_view message,
              std::initializer_list<Field> fields) {
  const auto micros = static_cast<uint64_t>(now.time_since_epoch().count()) / 1000;
  char time[32];
  char* end = std::to_chars(time, time + 24, micros / kMicro).ptr;
  *end = '.';
  end = put_micros(end + 1, static_cast<uint32_t>(micros % kMicro));
  line.put("{\"level\":\"");
  line.put(level_name(level));
  line.put("\",\"ts\":");
  line.put({time, static_cast<size_t>(end - time)});
  line.put(",\"msg\":\"");
  line.put_escaped(message);
  line.put("\"");
  for (const auto& field : fields) {
    line.put(",\"");
    line.put_escaped(field.key);
    line.put("\":");
    put_value(line, field);
  }
  line.put("}\n");
}

void put_console(LineWriter& line, Level level, WallTime now, std::string_view message,
                 std::initializer_list<Field> fields) {
  const int64_t micros = now.time_since_epoch().count() / 1000;
  char head[64];
  const auto end = fmt::format_to_n(head, sizeof head, "{:%Y-%m-%dT%H:%M:%S}.{:06}Z {:<5} ",
                                    fmt::gmtime(static_cast<std::time_t>(micros / 1'000'000)),
                                    micros % 1'000'000, level_name(level))
                       .out;
  line.put({head, static_cast<size_t>(end - head)});
  line.put_escaped(message);
  for (const auto& field : fields) {
    line.put(" ");
    line.put(field.key);
    line.put("=");
    put_value(line, field);
  }
  line.put("\n");
}

}  // namespace

void start(const Options& options) {
  State& s = state();
  const MutexLock lock(s.drain_mutex);
  CHECK(!s.running.load());
  s.drain();
  s.sink = std::make_unique<Sink>(options.fd);
  s.level = options.level;
  s.format = options.format;
  s.ring_bytes = options.ring_bytes;
  s.running = true;
  // The writer takes no signals: those of the process are for the threads that expect them.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  s.writer = std::thread([&s] { s.run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void stop() {
  State& s = state();
  {
    const MutexLock lock(s.drain_mutex);
    if (!s.running.load()) return;
    s.running = false;
  }
  s.wake.notify_one();
  s.writer.join();
  flush();
}

void flush() {
  const MutexLock lock(state().drain_mutex);
  state().drain();
}

bool enabled(Level level) {
  return level <= state().level.load(std::memory_order_relaxed);
}

uint64_t dropped_lines() {
  return state().dropped.load(std::memory_order_relaxed);
}

void write(Level level, std::string_view message, std::initializer_list<Field> fields) {
  if (!enabled(level)) return;
  State& s = state();
  const auto now = real_clock().wall();
  if (level <= Level::kWarn && !s.sampler.admit(message, now.time_since_epoch().count())) {
    s.dropped.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  LineWriter line(own_ring());
  if (s.format.load(std::memory_order_relaxed) == Format::kJson)
    put_json(line, level, now, message, fields);
  else
    put_console(line, level, now, message, fields);
  if (!line.commit()) s.dropped.fetch_add(1, std::memory_order_relaxed);
  if (line.ring_half_full()) s.wake.notify_one();
  // Sequentially consistent with commit(): either stop()'s last drain sees the line, or this load
  // sees the stop.
  if (!s.running.load(std::memory_order_seq_cst)) [[unlikely]]
    flush();
}

}  // namespace llmd::log
