#include "requests.h"

#include "base/arena.h"
#include "base/text.h"
#include "codec/json_scan.h"
#include "codec/json_text.h"
#include "codec/protobuf.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <utility>

namespace llmd::kv_indexer {
namespace {

using codec::proto_bytes;
using nlohmann::json;

enum : uint8_t { kRoot, kMessages, kPods, kPod };
constexpr codec::JsonField kFields[] = {
    {kRoot, "messages", kMessages}, {kRoot, "pods", kPods}, {kPods, codec::kJsonElement, kPod}};
constexpr codec::JsonSchema kSchema(kFields);

/// What is no part of OpenAI's bodies.
struct Extras final : codec::JsonSink {
  void open(uint8_t id, codec::JsonKind, size_t) override {
    chat |= id == kMessages;
    if (id == kPods) pods.clear();
  }
  void value(uint8_t id, const codec::JsonValue& value) override {
    const bool is_text = value.kind == codec::JsonKind::kString;
    if (id == kPods) bad |= value.kind != codec::JsonKind::kArray;
    if (id == kPod) bad |= !is_text;
    if (id != kPod || !is_text || ++count > kPodsMax) return;
    std::string pod(value.inside());
    pod.resize(codec::unescape_json(value.inside(), pod.data()));
    pods.push_back(std::move(pod));
  }

  bool chat = false, bad = false;
  size_t count = 0;
  std::vector<std::string> pods;
};

std::unexpected<Error> too_many(std::string_view field, size_t count, size_t most) {
  return fail(Code::kBadRequest, "'" + std::string(field) + "' has " + std::to_string(count) +
                                     " entries, at most " + std::to_string(most) + " are possible");
}

Status check(const Question& question, size_t pods) {
  if (question.model.empty()) return fail(Code::kBadRequest, "the request names no model");
  if (pods > kPodsMax) return too_many("pods", pods, kPodsMax);
  return {};
}

}  // namespace

Result<ScoreRequest> read_body(std::string_view body, BodyKind kind, const request::Parser& parser,
                               const render::TokenSource& tokens) {
  Extras extras;
  codec::JsonScanner scanner(kSchema, extras);
  scanner.feed(body);
  const bool chat = kind == BodyKind::kChat || (kind == BodyKind::kEither && extras.chat);
  Arena arena;
  auto* const scan =
      parser.scan_request({chat ? "/v1/chat/completions" : "/v1/completions", {}}, arena);
  scan->feed(body);
  LLMD_TRY_ASSIGN(const auto view, scan->finish(body));
  if (extras.bad) return fail(Code::kBadRequest, "'pods' is no list of names");
  ScoreRequest request{.question = {.model = std::string(view.model),
                                    .cache_salt = std::string(view.cache_salt),
                                    .pods = std::move(extras.pods)},
                       .text = {},
                       .tokens = {}};
  LLMD_TRY(check(request.question, extras.count));
  if (view.prompts.size() > kPromptsMax)
    return too_many("prompt", view.prompts.size(), kPromptsMax);
  if (std::ranges::any_of(view.prompts, render::is_text)) {
    LLMD_TRY_ASSIGN(request.text, tokens.question(view, body));
    return request;
  }
  for (const auto& prompt : view.prompts)
    request.tokens.push_back(
        {.token_ids = {prompt.token_ids.begin(), prompt.token_ids.end()}, .media = {}});
  return request;
}

Result<ScoreRequest> read_message(std::string_view message, const render::TokenSource& tokens) {
  ScoreRequest request;
  std::string_view prompt;
  size_t pods = 0;
  codec::ProtoReader reader(message);
  while (reader.next()) {
    if (reader.key() == proto_bytes(1)) prompt = reader.bytes();
    if (reader.key() == proto_bytes(2)) request.question.model = reader.bytes();
    if (reader.key() == proto_bytes(3) && ++pods <= kPodsMax)
      request.question.pods.emplace_back(reader.bytes());
  }
  if (!reader.ok()) return fail(Code::kBadRequest, "malformed GetPodScoresRequest");
  LLMD_TRY(check(request.question, pods));
  std::string body = R"({"prompt":")";
  append_json_escaped(body, prompt);
  body += "\"}";
  LLMD_TRY_ASSIGN(request.text, tokens.question({.api = request::Api::kCompletions}, body));
  return request;
}

std::string write_message(const Scores& scores) {
  std::string out;
  codec::ProtoWriter writer(out);
  for (const auto& pod : scores.pods)
    writer.message(1, [&] {
      writer.bytes(1, pod.pod);
      writer.real(2, pod.score);
    });
  return out;
}

std::string pod_scores_json(const Scores& scores) {
  json out = json::object();
  for (const auto& pod : scores.pods) out[pod.pod] = pod.score;
  return out.dump();
}

std::string scores_json(const Scores& scores) {
  json pods = json::array();
  for (const auto& pod : scores.pods) {
    json tiers = json::object();
    for (const auto& tier : pod.tiers) tiers[tier.name] = tier.blocks;
    pods.push_back(
        {{"pod", pod.pod}, {"score", pod.score}, {"blocks", pod.blocks}, {"tiers", tiers}});
  }
  return json{{"block_size_tokens", scores.block_tokens},
              {"total_blocks", scores.blocks},
              {"pods", std::move(pods)}}
      .dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace llmd::kv_indexer
