#include "bench/open_loop.h"

#include "bench/chat_stream.h"
#include "bench/context_pairs.h"
#include "http/client.h"
#include "io/loop.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>

namespace llmd::bench {
namespace {

class Generator;

/// One request at a time, used again for later ones.
class Flight final : http::CallHandler {
 public:
  Flight(Generator& generator, io::Loop& loop, http::Client& client)
      : generator_(generator), clock_(loop.clock()), call_(client, *this), deadline_(loop) {}

  void start(const OpenLoopOptions& options, std::string_view path, std::string body,
             std::string request_id);

 private:
  void on_response(const http::ResponseHead& head) override { status_ = head.status; }
  void on_data(std::string_view data, bool last) override;
  void on_failure(http::Failure failure) override;
  void broke(std::string_view why);
  void end();

  Generator& generator_;
  const Clock& clock_;
  http::Call call_;
  io::Timer deadline_;
  std::string body_;
  std::string request_id_;
  std::vector<HeaderField> headers_;
  ChatStream stream_;
  TimePoint sent_{};
  int status_ = 0;
};

/// One load: its arrivals, and its requests under way.
class Generator {
 public:
  Generator(const OpenLoopOptions& options, io::Loop& loop, http::Client& client,
            OpenLoopResult& into)
      : result(into),
        options_(options),
        rng_(options.seed),
        loop_(loop),
        client_(client),
        arrival_(loop) {
    if (!options.trace)
      contexts_ =
          make_context_pairs(rng_, std::max<size_t>(options.families, 1), options.context_tokens);
  }

  void start(TimePoint now) {
    begin_ = now;
    next_ = begin_ + options_.start;
    last_ = next_ + options_.duration;
    if (options_.trace) plan_next();
    arrive();
  }

  bool done() const { return !arriving_ && idle_.size() == flights_.size(); }
  TimePoint begin() const { return begin_; }

  void ended(Flight& flight) {
    idle_.push_back(&flight);
    result.seconds = seconds(loop_.clock().now() - begin_);
  }

  OpenLoopResult& result;

 private:
  void arrive() {
    const TimePoint now = loop_.clock().now();
    // Arrivals keep to their own schedule: those that came due together are sent together.
    while (next_ <= now && arriving_) {
      send();
      plan_next();
    }
    if (arriving_) arrival_.arm(next_ - now, [this] { arrive(); });
  }

  void plan_next() {
    if (!options_.trace) {
      next_ += std::chrono::duration_cast<Nanos>(
          std::chrono::duration<double>(-std::log1p(-rng_.uniform()) / options_.rate));
      arriving_ = next_ < last_;
      return;
    }
    const Trace& trace = *options_.trace;
    arriving_ = ++planned_ <= trace.size();
    if (!arriving_) return;
    next_ = begin_ + options_.start +
            std::chrono::duration_cast<Nanos>(trace[planned_ - 1].at / options_.speed);
    arriving_ = next_ < last_;
  }

  void send() {
    if (idle_.empty()) {
      if (flights_.size() >= options_.in_flight_max) {
        ++result.not_sent;
        return;
      }
      flights_.push_back(std::make_unique<Flight>(*this, loop_, client_));
      idle_.push_back(flights_.back().get());
    }
    Flight& flight = *idle_.back();
    idle_.pop_back();
    const int64_t n = ++result.sent;
    auto id = fmt::format("bench-{}-{}", options_.seed, n);
    if (options_.trace)
      return flight.start(options_, "/v1/completions",
                          trace_body((*options_.trace)[planned_ - 1], planned_, options_.model,
                                     static_cast<uint32_t>(options_.max_tokens)),
                          std::move(id));
    const auto& context = contexts_[rng_.below(contexts_.size())].context;
    flight.start(
        options_, "/v1/chat/completions",
        chat_body(options_.model, fmt::format("{}\nQuestion {}: what follows?", context, n),
                  options_.max_tokens),
        std::move(id));
  }

  const OpenLoopOptions& options_;
  Rng rng_;
  io::Loop& loop_;
  http::Client& client_;
  std::vector<ContextPair> contexts_;
  std::vector<std::unique_ptr<Flight>> flights_;
  std::vector<Flight*> idle_;
  io::Timer arrival_;
  TimePoint begin_{};
  TimePoint next_{};
  TimePoint last_{};
  bool arriving_ = true;
  size_t planned_ = 0;  // requests of the trace, the next one included
};

void Flight::start(const OpenLoopOptions& options, std::string_view path, std::string body,
                   std::string request_id) {
  body_ = std::move(body);
  request_id_ = std::move(request_id);
  stream_ = {};
  status_ = 0;
  sent_ = clock_.now();
  headers_.assign({{"Content-Type", "application/json"}, {"X-Request-Id", request_id_}});
  for (const auto& [name, value] : options.headers) headers_.push_back({name, value});
  const std::string_view piece = body_;
  deadline_.arm(options.timeout, [this] {
    call_.abort();
    ++generator_.result.timed_out;
    end();
  });
  call_.start({.address = options.target.address}, {.method = "POST",
                                                    .target = path,
                                                    .host = options.target.host,
                                                    .headers = headers_,
                                                    .body = std::span(&piece, 1)});
}

void Flight::on_data(std::string_view data, bool last) {
  if (status_ == 200) stream_.feed(data, clock_.now());
  if (!last) return;
  auto& result = generator_.result;
  if (status_ != 200) {
    ++result.refused;
    ++result.why[fmt::format("status {}", status_)];
  } else if (stream_.failed()) {
    broke("an event of the answer is no token, or an error");
  } else if (!stream_.done() || !stream_.first_content()) {
    broke(stream_.done() ? "no token in the answer" : "the answer ended without \"[DONE]\"");
  } else {
    ++result.ok;
    result.output_tokens += stream_.content_events();
    result.prompt_tokens += stream_.prompt_tokens();
    result.cached_tokens += stream_.cached_tokens();
    result.sent_s.push_back(seconds(sent_ - generator_.begin()));
    result.ttft_ms.push_back(millis(*stream_.first_content() - sent_));
    result.e2e_ms.push_back(millis(clock_.now() - sent_));
    if (const auto gaps = stream_.content_events() - 1; gaps > 0)
      result.tpot_ms.push_back(millis(stream_.last_content() - *stream_.first_content()) /
                               static_cast<double>(gaps));
  }
  end();
}

void Flight::on_failure(http::Failure failure) {
  broke(http::text_of(failure));
  end();
}

void Flight::broke(std::string_view why) {
  ++generator_.result.broken;
  ++generator_.result.why[std::string(why)];
}

void Flight::end() {
  deadline_.cancel();
  generator_.ended(*this);
}

}  // namespace

std::vector<OpenLoopResult> run_open_loops(
    std::span<const OpenLoopOptions> loads,
    const std::function<void(std::span<const OpenLoopResult>)>& on_second) {
  if (loads.empty()) return {};
  io::Loop loop(0, loads[0].seed);
  http::Client client(loop);
  std::vector<OpenLoopResult> results(loads.size());
  std::vector<std::unique_ptr<Generator>> generators;
  generators.reserve(loads.size());
  for (size_t i = 0; i < loads.size(); ++i)
    generators.push_back(std::make_unique<Generator>(loads[i], loop, client, results[i]));
  const TimePoint begin = loop.clock().now();
  for (auto& generator : generators) generator->start(begin);
  TimePoint next_second = begin + std::chrono::seconds(1);
  while (!std::ranges::all_of(generators, [](const auto& g) { return g->done(); })) {
    loop.turn(std::chrono::milliseconds(100));
    if (!on_second || loop.clock().now() < next_second) continue;
    next_second += std::chrono::seconds(1);
    on_second(results);
  }
  return results;
}

OpenLoopResult run_open_loop(const OpenLoopOptions& options,
                             const std::function<void(const OpenLoopResult&)>& on_second) {
  std::function<void(std::span<const OpenLoopResult>)> heard;
  if (on_second) heard = [&](std::span<const OpenLoopResult> all) { on_second(all[0]); };
  return std::move(run_open_loops({&options, 1}, heard)[0]);
}

}  // namespace llmd::bench
