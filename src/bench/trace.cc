#include "bench/trace.h"

#include "base/file.h"
#include "base/rng.h"
#include "base/text.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>

namespace llmd::bench {
namespace {

constexpr std::string_view kAzureHead = "TIMESTAMP,ContextTokens,GeneratedTokens";
constexpr int64_t kTokensMax = 10'000'000;
/// Times as nanoseconds fit in 64 bits.
constexpr int kYearMin = 1970, kYearEnd = 2200;
constexpr int64_t kTimeMsMax = int64_t{1} << 42;  // 139 years
constexpr size_t kTraceBytesMax = size_t{256} << 20;
/// Token ids lie in [kFirstToken, kFirstToken + kTokens): text of every usual vocabulary.
constexpr uint64_t kFirstToken = 256;
constexpr uint64_t kTokens = 30'000;
/// Pieces of requests that share nothing.
constexpr uint64_t kOwnPieces = uint64_t{1} << 40;

bool in_bounds(int64_t tokens) {
  return tokens >= 0 && tokens <= kTokensMax;
}

std::optional<TraceRequest> parse_mooncake(std::string_view line) {
  const auto entry = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!entry.is_object()) return std::nullopt;
  const auto number = [&](const char* name) -> int64_t {
    const auto at = entry.find(name);
    return at != entry.end() && at->is_number_integer() ? at->get<int64_t>() : -1;
  };
  const int64_t at_ms = number("timestamp");
  const int64_t input = number("input_length");
  const int64_t output = number("output_length");
  const auto pieces = entry.find("hash_ids");
  if (at_ms < 0 || at_ms > kTimeMsMax || !in_bounds(input) || !in_bounds(output) ||
      pieces == entry.end() || !pieces->is_array() ||
      !std::ranges::all_of(*pieces, &nlohmann::json::is_number_unsigned))
    return std::nullopt;
  return TraceRequest{.at = std::chrono::milliseconds(at_ms),
                      .input_tokens = static_cast<uint32_t>(input),
                      .output_tokens = static_cast<uint32_t>(output),
                      .pieces = pieces->get<std::vector<uint64_t>>()};
}

std::optional<TraceRequest> parse_azure(std::string_view line) {
  int year = 0, month = 0, day = 0, hour = 0, minute = 0;
  double second = 0;
  long long input = -1, output = -1;
  if (std::sscanf(std::string(line).c_str(), "%4d-%2d-%2d %2d:%2d:%lf,%lld,%lld", &year, &month,
                  &day, &hour, &minute, &second, &input, &output) != 8 ||
      year < kYearMin || year >= kYearEnd || !in_bounds(input) || !in_bounds(output))
    return std::nullopt;
  namespace chrono = std::chrono;
  const chrono::year_month_day date{chrono::year(year), chrono::month(static_cast<unsigned>(month)),
                                    chrono::day(static_cast<unsigned>(day))};
  if (!date.ok() || !(second >= 0 && second < 61)) return std::nullopt;
  const auto since_epoch =
      chrono::sys_days(date).time_since_epoch() + chrono::hours(hour) + chrono::minutes(minute);
  return TraceRequest{
      .at = Nanos(since_epoch) + chrono::duration_cast<Nanos>(chrono::duration<double>(second)),
      .input_tokens = static_cast<uint32_t>(input),
      .output_tokens = static_cast<uint32_t>(output),
      .pieces = {}};
}

}  // namespace

Result<Trace> parse_trace(std::string_view text) {
  Trace trace;
  const bool azure = text.starts_with(kAzureHead);
  for (size_t number = 1; !text.empty(); ++number) {
    const std::string_view line = trim(text.substr(0, text.find('\n')));
    text.remove_prefix(
        std::min(text.size(), text.find('\n') == text.npos ? text.size() : text.find('\n') + 1));
    if (line.empty() || (azure && number == 1)) continue;
    auto request = azure ? parse_azure(line) : parse_mooncake(line);
    if (!request)
      return fail(Code::kBadRequest,
                  "line " + std::to_string(number) +
                      (azure ? ": not TIMESTAMP,ContextTokens,GeneratedTokens"
                             : ": not an object with timestamp, input_length, output_length and "
                               "hash_ids, nor a file that begins with " +
                                   std::string(kAzureHead)));
    trace.push_back(std::move(*request));
  }
  if (trace.empty()) return fail(Code::kBadRequest, "no request in it");
  std::ranges::stable_sort(trace, {}, &TraceRequest::at);
  const Nanos first = trace.front().at;
  for (auto& request : trace) request.at -= first;
  return trace;
}

Result<Trace> read_trace(const std::string& path) {
  const auto text = read_file(path, kTraceBytesMax);
  auto trace = text ? parse_trace(*text) : fail(text.error());
  if (!trace) trace.error().message = path + ": " + trace.error().message;
  return trace;
}

std::string trace_body(const TraceRequest& request, uint64_t number, std::string_view model,
                       uint32_t output_max) {
  std::string out = R"({"model":")";
  append_json_escaped(out, model);
  out +=
      R"(","stream":true,"stream_options":{"include_usage":true},"ignore_eos":true,"max_tokens":)";
  out += std::to_string(std::clamp<uint32_t>(request.output_tokens, 1, output_max));
  out += R"(,"prompt":[)";
  for (uint32_t i = 0; i < std::max<uint32_t>(request.input_tokens, 1); ++i) {
    const uint32_t piece = i / TraceRequest::kPieceTokens;
    const uint64_t id =
        piece < request.pieces.size() ? request.pieces[piece] : kOwnPieces * (number + 1) + piece;
    const uint64_t token =
        Rng(id * TraceRequest::kPieceTokens + i % TraceRequest::kPieceTokens).below(kTokens);
    if (i > 0) out += ',';
    out += std::to_string(kFirstToken + token);
  }
  return out + "]}";
}

}  // namespace llmd::bench
