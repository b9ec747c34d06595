#include "bench/pair_experiment.h"

#include <fmt/format.h>

#include <chrono>
#include <thread>

namespace llmd::bench {
namespace {

/// Counters of all engines at one moment.
struct Reading {
  std::vector<EngineCounters> engines;

  double requests() const {
    double sum = 0;
    for (const auto& e : engines) sum += e.requests;
    return sum;
  }
};

Result<Reading> read_engines(BlockingClient& client, std::span<const Target> engines) {
  Reading reading;
  for (const auto& engine : engines) {
    LLMD_TRY_ASSIGN(const Answer page, client.get(engine, "/metrics"));
    if (page.status != 200)
      return fail(Code::kModelServerError,
                  fmt::format("GET {}/metrics: status {}", engine.host, page.status));
    reading.engines.push_back(read_counters(page.body));
  }
  return reading;
}

/// An engine counts a request at its end, which may be a moment after the client has its answer.
Result<Reading> read_after_request(BlockingClient& client, std::span<const Target> engines,
                                   const Reading& before) {
  constexpr int kTries = 200;
  for (int i = 0; i < kTries; ++i) {
    LLMD_TRY_ASSIGN(Reading reading, read_engines(client, engines));
    if (reading.requests() > before.requests()) return reading;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return fail(Code::kModelServerError,
              "no engine counted the request (vllm:request_success_total)");
}

/// The engine whose counter of requests grew.
size_t served_by(const Reading& before, const Reading& after) {
  for (size_t i = 0; i < after.engines.size(); ++i)
    if (after.engines[i].requests > before.engines[i].requests) return i;
  return after.engines.size();
}

EngineCounters added(const Reading& before, const Reading& after) {
  EngineCounters sum;
  for (size_t i = 0; i < after.engines.size(); ++i) {
    const auto d = after.engines[i] - before.engines[i];
    sum = {sum.requests + d.requests, sum.cache_hits + d.cache_hits,
           sum.cache_queries + d.cache_queries, sum.prefill_tokens + d.prefill_tokens};
  }
  return sum;
}

Result<Chat> ask(BlockingClient& client, const PairSetting& setting, std::string_view content,
                 std::string_view request_id) {
  LLMD_TRY_ASSIGN(Chat chat,
                  client.chat(setting.router, chat_body(setting.model, content), request_id));
  if (chat.status != 200)
    return fail(Code::kModelServerError,
                fmt::format("request {}: status {}: {}", request_id, chat.status, chat.error_body));
  if (!chat.stream.done() || chat.stream.failed() || !chat.stream.first_content())
    return fail(Code::kModelServerError,
                fmt::format("request {}: the answer is not a whole chat stream", request_id));
  return chat;
}

}  // namespace

Result<std::vector<SecondRequest>> run_pairs(
    BlockingClient& client, const PairSetting& setting, std::span<const ContextPair> pairs,
    int round, const std::function<void(const SecondRequest&)>& on_pair) {
  std::vector<SecondRequest> seconds;
  LLMD_TRY_ASSIGN(Reading start, read_engines(client, setting.engines));
  for (size_t i = 0; i < pairs.size(); ++i) {
    const auto id = [&](int question) {
      return fmt::format("{}-{}-{}", setting.id_prefix, i + 1, question);
    };
    LLMD_TRY(ask(client, setting, pairs[i].first, id(1)));
    LLMD_TRY_ASSIGN(const Reading between, read_after_request(client, setting.engines, start));
    LLMD_TRY_ASSIGN(const Chat chat, ask(client, setting, pairs[i].second, id(2)));
    LLMD_TRY_ASSIGN(Reading after, read_after_request(client, setting.engines, between));
    const SecondRequest second{
        .round = round,
        .returned = served_by(start, between) == served_by(between, after),
        .ttft_ms = millis(*chat.stream.first_content() - chat.sent) * setting.time_scale,
        .engine = added(between, after)};
    if (on_pair) on_pair(second);
    seconds.push_back(second);
    start = std::move(after);
  }
  return seconds;
}

Status reset_prefix_caches(BlockingClient& client, std::span<const Target> engines) {
  for (const auto& engine : engines) {
    LLMD_TRY_ASSIGN(const Answer answer, client.post(engine, "/reset_prefix_cache", {}));
    if (answer.status != 200)
      return fail(Code::kModelServerError,
                  fmt::format("POST {}/reset_prefix_cache: status {}", engine.host, answer.status));
  }
  return {};
}

}  // namespace llmd::bench
