#include "generate_scan.h"

namespace llmd::request {

using codec::JsonKind;

void GenerateScan::own_open(uint8_t id, JsonKind kind) {
  if (id == kSampling) forget_caps();
  if (id == kFeatures || id == kHashes) media_.clear();
  if (id == kIds) {
    ids_.clear();
    state_ = kind == JsonKind::kArray ? Ids::kGood : Ids::kNoList;
  }
}

void GenerateScan::own_value(uint8_t id, const codec::JsonValue& v) {
  if (id >= kFeatures) {
    media_value(id, v);
  } else if (id == kSampling) {
    if (v.kind != JsonKind::kObject) forget_caps();
  } else if (id == kIds) {
    if (v.kind == JsonKind::kArray) return;
    ids_.clear();
    state_ = v.kind == JsonKind::kNull ? Ids::kAbsent : Ids::kNoList;
  } else if (id == kId && state_ == Ids::kGood) {
    const auto token =
        v.kind == JsonKind::kNumber ? whole_number(v.text, UINT32_MAX) : std::nullopt;
    if (token) {
      ids_.push_back(static_cast<uint32_t>(*token));
      return;
    }
    state_ = Ids::kBadElement;
    bad_index_ = ids_.size();
    bad_element_ = {v.begin, v.end};
  }
}

void GenerateScan::media_value(uint8_t id, const codec::JsonValue& v) {
  if (v.kind == JsonKind::kNull) {
    if (id <= kHashes) media_.clear();
    return;
  }
  const JsonKind wanted = id >= kFirstHash   ? JsonKind::kString
                          : id >= kFirstList ? JsonKind::kArray
                                             : JsonKind::kObject;
  if (v.kind != wanted) bad_media_ = true;
  if (wanted == JsonKind::kString && v.kind == wanted && v.unescaped > 0)
    media_.push_back({static_cast<Modality>(id - kFirstHash), text_of(v)});
}

std::span<const Prompt> GenerateScan::prompts(std::string_view body) {
  const auto prompts = arena_.array<Prompt>(1);
  prompts[0].token_ids = ids_.view();
  const auto media = arena_.array<MediaHash>(media_.size());
  for (size_t i = 0; i < media.size(); ++i)
    media[i] = {media_[i].modality, resolve(body, media_[i].hash)};
  prompts[0].media = media;
  return prompts;
}

}  // namespace llmd::request
