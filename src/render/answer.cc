#include "answer.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace llmd::render {
namespace {

using nlohmann::json;

std::unexpected<Error> wrong(const char* what) {
  return fail(Code::kInternal, std::string("the rendered prompt has ") + what);
}

/// A whole number of 32 bits.
std::optional<uint32_t> number(const json& value) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() > UINT32_MAX) return std::nullopt;
  return value.get<uint32_t>();
}

const json* list_of(const json& features, const char* field, std::string_view modality) {
  const auto lists = features.find(field);
  if (lists == features.end() || !lists->is_object()) return nullptr;
  const auto list = lists->find(modality);
  return list == lists->end() || !list->is_array() ? nullptr : &*list;
}

void read_media(const json& features, request::Modality modality, std::vector<Media>& out) {
  const auto name = request::modality_name(modality);
  const json* hashes = list_of(features, "mm_hashes", name);
  const json* places = list_of(features, "mm_placeholders", name);
  if (!hashes || !places) return;
  for (size_t i = 0; i < std::min(hashes->size(), places->size()); ++i) {
    const json& place = (*places)[i];
    if (!(*hashes)[i].is_string() || !place.is_object() || out.size() == request::kMediaMax)
      continue;
    const auto offset = number(place.value("offset", json()));
    const auto length = number(place.value("length", json()));
    if (offset && length) out.push_back({modality, (*hashes)[i], *offset, *length});
  }
}

Result<RenderedPrompt> read_prompt(const json& answer) {
  if (!answer.is_object()) return wrong("no fields");
  const auto ids = answer.find("token_ids");
  if (ids == answer.end() || !ids->is_array()) return wrong("no list token_ids");
  RenderedPrompt prompt;
  prompt.token_ids.reserve(ids->size());
  for (const json& id : *ids) {
    const auto token = number(id);
    if (!token) return wrong("a token id that is not a whole number of 32 bits");
    prompt.token_ids.push_back(*token);
  }
  if (const auto features = answer.find("features");
      features != answer.end() && features->is_object())
    for (size_t m = 0; m < request::kModalities; ++m)
      read_media(*features, static_cast<request::Modality>(m), prompt.media);
  std::ranges::stable_sort(prompt.media, {}, &Media::offset);
  return prompt;
}

}  // namespace

Rendered read_answer(std::string_view body, bool chat) {
  const json answer = json::parse(body, nullptr, false);
  std::vector<RenderedPrompt> prompts;
  if (chat) {
    LLMD_TRY_ASSIGN(auto prompt, read_prompt(answer));
    prompts.push_back(std::move(prompt));
    return prompts;
  }
  if (!answer.is_array() || answer.empty())
    return fail(Code::kInternal, "there is no list of rendered prompts");
  for (const json& one : answer) {
    LLMD_TRY_ASSIGN(auto prompt, read_prompt(one));
    prompts.push_back(std::move(prompt));
  }
  return prompts;
}

}  // namespace llmd::render
