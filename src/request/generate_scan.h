#pragma once

#include "json_body_scan.h"

namespace llmd::request {

enum : uint8_t {
  kIds = kFirstOwn,
  kId,
  kSampling,
  kFeatures,   // the media in the token ids
  kHashes,     // their hashes …
  kPlaces,     // … and where they stand
  kFirstList,  // the hashes of one modality, in the order of Modality, and so on
  kFirstHash = kFirstList + kModalities,
  kFirstPlaces = kFirstHash + kModalities,
  kFirstPlace = kFirstPlaces + kModalities,
  kOffset = kFirstPlace + kModalities,
  kLength,
};

/// The body of an API that takes token ids: one list of them, the media in them, a cap inside the
/// sampling parameters, a salt. What is wrong with it is kept until the end, as the APIs
/// differ in what they say first.
class GenerateScan : public JsonBodyScan {
 protected:
  GenerateScan(const codec::JsonSchema& schema, Texts texts, Arena& arena)
      : JsonBodyScan(Api::kGenerate, schema, texts, arena),
        ids_(arena),
        media_{Media(arena), Media(arena), Media(arena)} {}
  ~GenerateScan() = default;

  enum class Ids : uint8_t { kAbsent, kGood, kNoList, kBadElement };
  Ids state() const { return state_; }
  bool complete() const final { return !ids_.empty(); }
  /// What is wrong with the media; "": nothing.
  std::string_view bad_media() const { return bad_media_; }
  /// Of a list with a bad element: which, and how it is written.
  size_t bad_index() const { return bad_index_; }
  Range bad_element() const { return bad_element_; }

 private:
  void own_open(uint8_t id, codec::JsonKind kind) final;
  void own_value(uint8_t id, const codec::JsonValue& v) final;
  std::span<const Prompt> prompts(std::string_view body) final;
  void media_value(uint8_t id, const codec::JsonValue& v);

  void forget_media(uint8_t id);
  template <class T>
  void add(ArenaList<T>& list, const T& value) {
    if (list.size() == kMediaMax)
      bad_media_ = "more than 65536 media";
    else
      list.push_back(value);
  }

  struct Place {
    uint32_t offset, length;
  };
  /// Those of one modality: the hash and the place at the same index belong together.
  struct Media {
    explicit Media(Arena& arena) : hashes(arena), places(arena) {}
    ArenaList<Text> hashes;
    ArenaList<Place> places;
  };
  ArenaList<uint32_t> ids_;
  Media media_[kModalities];
  Place place_{};  // the one being read
  std::string_view bad_media_;
  Ids state_ = Ids::kAbsent;
  size_t bad_index_ = 0;
  Range bad_element_;
};

}  // namespace llmd::request
