#include "generate_scan.h"

#include <algorithm>
#include <utility>

namespace llmd::request {

using codec::JsonKind;

namespace {

/// Whether `id` is one of those, one a modality, that begin at `first`.
bool is_of(uint8_t id, uint8_t first) {
  return id >= first && id < first + kModalities;
}

}  // namespace

void GenerateScan::own_open(uint8_t id, JsonKind kind) {
  if (id == kSampling) forget_caps();
  if (id >= kFeatures) forget_media(id);
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

/// The last of repeated keys wins.
void GenerateScan::forget_media(uint8_t id) {
  for (uint8_t m = 0; m < kModalities; ++m) {
    if (id == kFeatures || id == kHashes || id == kFirstList + m) media_[m].hashes.clear();
    if (id == kFeatures || id == kPlaces || id == kFirstPlaces + m) media_[m].places.clear();
  }
}

void GenerateScan::media_value(uint8_t id, const codec::JsonValue& v) {
  const bool null = v.kind == JsonKind::kNull;
  const bool number = id == kOffset || id == kLength;
  const JsonKind wanted = number                                             ? JsonKind::kNumber
                          : is_of(id, kFirstHash)                            ? JsonKind::kString
                          : is_of(id, kFirstList) || is_of(id, kFirstPlaces) ? JsonKind::kArray
                                                                             : JsonKind::kObject;
  const auto tokens = number && !null ? whole_number(v.text, UINT32_MAX) : 0;
  if ((!null && v.kind != wanted) || !tokens) {
    bad_media_ = id == kPlaces || id >= kFirstPlaces
                     ? "features.mm_placeholders must be lists of {offset, length} by modality"
                     : "features.mm_hashes must be lists of strings by modality";
  } else if (number) {
    (id == kOffset ? place_.offset : place_.length) = static_cast<uint32_t>(*tokens);
  } else if (is_of(id, kFirstHash)) {
    add(media_[id - kFirstHash].hashes, null ? Text{} : text_of(v));
  } else if (is_of(id, kFirstPlace)) {
    add(media_[id - kFirstPlace].places, std::exchange(place_, {}));
  } else if (null) {
    forget_media(id);
  }
}

std::span<const Prompt> GenerateScan::prompts(std::string_view body) {
  const auto prompts = arena_.array<Prompt>(1);
  prompts[0].token_ids = ids_.view();
  ArenaList<MediaHash> media(arena_);
  for (uint8_t m = 0; m < kModalities; ++m) {
    const auto& [hashes, places] = media_[m];
    for (size_t i = 0; i < std::max(hashes.size(), places.size()); ++i) {
      MediaHash one{.modality = static_cast<Modality>(m)};
      if (i < hashes.size()) one.hash = resolve(body, hashes[i]);
      if (i < places.size()) {
        one.offset = places[i].offset;
        one.length = places[i].length;
      }
      if (!one.hash.empty() || one.length > 0) media.push_back(one);
    }
  }
  prompts[0].media = media.view();
  return prompts;
}

}  // namespace llmd::request
