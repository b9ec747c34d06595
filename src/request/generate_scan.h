#pragma once

#include "json_body_scan.h"

namespace llmd::request {

enum : uint8_t { kIds = kFirstOwn, kId, kSampling };

/// The body of an API that takes token ids: one list of them, a cap inside the sampling parameters,
/// a salt. What is wrong with it is kept until the end, as the APIs differ in what they say first.
class GenerateScan : public JsonBodyScan {
 protected:
  GenerateScan(const codec::JsonSchema& schema, Texts texts, Arena& arena)
      : JsonBodyScan(Api::kGenerate, schema, texts, arena), ids_(arena) {}
  ~GenerateScan() = default;

  enum class Ids : uint8_t { kAbsent, kGood, kNoList, kBadElement };
  Ids state() const { return state_; }
  bool complete() const final { return !ids_.empty(); }
  /// Of a list with a bad element: which, and how it is written.
  size_t bad_index() const { return bad_index_; }
  Range bad_element() const { return bad_element_; }

 private:
  void own_open(uint8_t id, codec::JsonKind kind) final;
  void own_value(uint8_t id, const codec::JsonValue& v) final;
  std::span<const Prompt> prompts(std::string_view) final;

  ArenaList<uint32_t> ids_;
  Ids state_ = Ids::kAbsent;
  size_t bad_index_ = 0;
  Range bad_element_;
};

}  // namespace llmd::request
