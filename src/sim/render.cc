#include "render.h"

#include "sim/tokenizer.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <openssl/evp.h>

#include <algorithm>
#include <vector>

namespace llmd::sim {
namespace {

using nlohmann::json;

struct Modality {
  const char* name;
  const char* block;  // key of the content block
  const char* field;  // of its URL or data
  const char* hash;
};
constexpr Modality kModalities[] = {{"image", "image_url", "url", "img"},
                                    {"audio", "input_audio", "data", "audio"},
                                    {"video", "video_url", "url", "video"}};

/// The URLs or data of all blocks of one modality, in order.
std::vector<std::string> sources(const json& messages, const Modality& modality) {
  std::vector<std::string> found;
  for (const json& message : messages) {
    const auto content = message.find("content");
    if (content == message.end() || !content->is_array()) continue;
    for (const json& block : *content) {
      const auto item = block.is_object() ? block.find(modality.block) : block.end();
      if (!block.is_object() || item == block.end() || !item->is_object()) continue;
      if (const auto source = item->find(modality.field);
          source != item->end() && source->is_string())
        found.push_back(source->get<std::string>());
    }
  }
  return found;
}

std::string base64(std::string_view bytes) {
  std::string out(4 * ((bytes.size() + 2) / 3), '\0');
  EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                  reinterpret_cast<const unsigned char*>(bytes.data()),
                  static_cast<int>(bytes.size()));
  return out;
}

/// null when the messages hold text only.
json features(const json& messages, size_t tokens) {
  std::vector<std::vector<std::string>> all;
  size_t items = 0;
  for (const Modality& modality : kModalities)
    items += all.emplace_back(sources(messages, modality)).size();
  if (items == 0) return nullptr;
  const size_t span = std::max<size_t>(tokens / items, 1);
  json hashes, places, kwargs;
  for (size_t m = 0, i = 0; m < all.size(); ++m) {
    const Modality& modality = kModalities[m];
    for (size_t k = 0; k < all[m].size(); ++k, ++i) {
      const std::string hash =
          fmt::format("sim_{}_{}_{:08x}", modality.hash, k, token_id(all[m][k]));
      const size_t offset = std::min(i * span, tokens > 0 ? tokens - 1 : 0);
      const size_t length = std::clamp<size_t>(span, 1, std::max<size_t>(tokens - offset, 1));
      hashes[modality.name].push_back(hash);
      places[modality.name].push_back({{"offset", offset}, {"length", length}});
      kwargs[modality.name].push_back(base64(hash));
    }
  }
  return {{"mm_hashes", hashes}, {"mm_placeholders", places}, {"kwargs_data", kwargs}};
}

}  // namespace

std::string render_answer(const json& body, const GenerationRequest& request, std::string_view id,
                          std::string_view model) {
  json answers = json::array();
  for (const PromptInput& prompt : request.prompts) {
    const bool one = request.prompts.size() == 1;
    json answer = {{"request_id", one ? std::string(id) : fmt::format("{}-{}", id, answers.size())},
                   {"token_ids", prompt.ids},
                   {"features", nullptr},
                   {"sampling_params", json::object()},
                   {"model", model},
                   {"stream", request.stream},
                   {"cache_salt", nullptr}};
    if (request.chat) answer["features"] = features(body.at("messages"), prompt.ids.size());
    if (request.max_tokens) answer["sampling_params"]["max_tokens"] = *request.max_tokens;
    if (!request.cache_salt.empty()) answer["cache_salt"] = request.cache_salt;
    answers.push_back(std::move(answer));
  }
  const json& out = request.chat ? answers.front() : answers;
  return out.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace llmd::sim
