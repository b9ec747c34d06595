#pragma once

#include "json_body_scan.h"

namespace llmd::request {

enum : uint8_t {
  kIds = kFirstOwn,
  kId,
  kSampling,
  kFeatures,
  kHashes,     // of the media in the token ids …
  kFirstList,  // … those of one modality, in the order of Modality
  kFirstHash = kFirstList + kModalities,
};

/// The body of an API that takes token ids: one list of them, hashes of the media in them, a cap
/// inside the sampling parameters, a salt. What is wrong with it is kept until the end, as the APIs
/// differ in what they say first.
class GenerateScan : public JsonBodyScan {
 protected:
  GenerateScan(const codec::JsonSchema& schema, Texts texts, Arena& arena)
      : JsonBodyScan(Api::kGenerate, schema, texts, arena), ids_(arena), media_(arena) {}
  ~GenerateScan() = default;

  enum class Ids : uint8_t { kAbsent, kGood, kNoList, kBadElement };
  Ids state() const { return state_; }
  bool complete() const final { return !ids_.empty(); }
  /// Whether the hashes are something else than lists of strings, or nulls.
  bool bad_media() const { return bad_media_; }
  /// Of a list with a bad element: which, and how it is written.
  size_t bad_index() const { return bad_index_; }
  Range bad_element() const { return bad_element_; }

 private:
  void own_open(uint8_t id, codec::JsonKind kind) final;
  void own_value(uint8_t id, const codec::JsonValue& v) final;
  std::span<const Prompt> prompts(std::string_view body) final;
  void media_value(uint8_t id, const codec::JsonValue& v);

  struct Media {
    Modality modality;
    Text hash;
  };
  ArenaList<uint32_t> ids_;
  ArenaList<Media> media_;
  bool bad_media_ = false;
  Ids state_ = Ids::kAbsent;
  size_t bad_index_ = 0;
  Range bad_element_;
};

}  // namespace llmd::request
