#include "bench/context_pairs.h"

#include "base/text.h"

#include <fmt/format.h>

#include <iterator>

namespace llmd::bench {
namespace {

// Single words only: every line then has the same number of tokens.
constexpr std::string_view kStations[] = {"kestrel", "harrier", "osprey", "merlin", "plover",
                                          "dunlin",  "curlew",  "avocet", "petrel", "fulmar",
                                          "gannet",  "heron",   "egret",  "bittern"};
constexpr std::string_view kWinds[] = {"north", "northeast", "east", "southeast",
                                       "south", "southwest", "west", "northwest"};
constexpr std::string_view kNotes[] = {"calm",  "drizzle", "haze",  "glare",   "frost",
                                       "gusts", "squall",  "swell", "thaw",    "thunder",
                                       "fog",   "hail",    "clear", "overcast"};

template <size_t N>
std::string_view pick(Rng& rng, const std::string_view (&words)[N]) {
  return words[rng.below(N)];
}

std::string make_context(Rng& rng, size_t tokens) {
  std::string text;
  fmt::format_to(std::back_inserter(text), "{:016x}: field report of survey team {} follows.",
                 rng.next(), pick(rng, kStations));
  const size_t lines = tokens > kTokensOfHead ? (tokens - kTokensOfHead) / kTokensPerLine : 0;
  for (size_t i = 0; i < lines; ++i) {
    fmt::format_to(std::back_inserter(text),
                   "\nObservation {}: station {} recorded {}.{} degrees, humidity {} percent, wind "
                   "{} knots from {}; note {}.",
                   i + 1, pick(rng, kStations), rng.below(40), rng.below(10), 20 + rng.below(80),
                   rng.below(60), pick(rng, kWinds), pick(rng, kNotes));
  }
  return text;
}

}  // namespace

std::vector<ContextPair> make_context_pairs(Rng& rng, size_t count, size_t tokens) {
  std::vector<ContextPair> pairs;
  pairs.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    ContextPair pair;
    pair.context = make_context(rng, tokens);
    pair.first = pair.context + "\nQuestion: Summarize the observations.";
    pair.second = pair.context + "\nQuestion: Which measurements should engineers collect next?";
    pairs.push_back(std::move(pair));
  }
  return pairs;
}

std::string chat_body(std::string_view model, std::string_view content, int max_tokens) {
  std::string body = R"({"model":")";
  append_json_escaped(body, model);
  body += R"(","messages":[{"role":"user","content":")";
  append_json_escaped(body, content);
  body += R"("}],"max_tokens":)";
  body += std::to_string(max_tokens);
  body += R"(,"temperature":0,"stream":true,"stream_options":{"include_usage":true}})";
  return body;
}

}  // namespace llmd::bench
