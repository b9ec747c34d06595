#pragma once

#include "codec/json_text.h"
#include "request/parser.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

/// For tests of body scans.
namespace llmd::request::testing {

using Scan = BodyScan* (*)(Arena&);

/// The byte stream of a prompt as the block hasher reads it.
inline std::string stream(const Prompt& prompt) {
  std::string out;
  for (const Piece& piece : prompt.pieces) {
    if (piece.kind == Piece::Kind::kBytes) {
      out += piece.text;
    } else if (piece.kind == Piece::Kind::kEscaped) {
      std::string text(piece.text.size(), 0);
      text.resize(codec::unescape_json(piece.text, text.data()));
      EXPECT_EQ(text.size(), piece.bytes);
      out += text;
    } else {
      out.resize((out.size() + 3) / 4 * 4);
      for (uint32_t i = 0; i < piece.count; ++i)
        out.append(reinterpret_cast<const char*>(&piece.token), 4);
    }
  }
  return out;
}

class Parsed {
 public:
  Parsed(Scan scan, std::string_view body) : body_(body), result_(scan(arena_)->finish(body_)) {}

  const RequestView* operator->() const { return &*result_; }
  bool good() const { return result_.has_value(); }
  std::string error() const { return result_ ? "" : result_.error().message; }
  std::string text(size_t prompt = 0) const { return stream(result_->prompts[prompt]); }
  std::vector<uint32_t> tokens(size_t prompt = 0) const {
    const auto ids = result_->prompts[prompt].token_ids;
    return {ids.begin(), ids.end()};
  }

 private:
  Arena arena_;
  std::string body_;
  Result<RequestView> result_;
};

}  // namespace llmd::request::testing
