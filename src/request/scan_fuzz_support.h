#pragma once

#include "codec/json_text.h"
#include "request/parser.h"

#include <cstdlib>
#include <string>

/// For fuzz targets: what a scan says, as text.
namespace llmd::request {

inline std::string describe(const Result<RequestView>& view) {
  if (!view) return view.error().message;
  std::string out(view->model);
  out += view->stream ? "|stream|" : "|";
  out += std::to_string(view->max_output_tokens.value_or(-1)) + '|' + std::string(view->cache_salt);
  if (view->model_value) out += std::to_string(view->model_value->begin + view->model_value->end);
  for (const Prompt& prompt : view->prompts) {
    out += "\nprompt ";
    for (uint32_t id : prompt.token_ids) out += std::to_string(id) + ' ';
    for (const Piece& piece : prompt.pieces) {
      if (piece.kind == Piece::Kind::kEscaped) {
        std::string text(piece.text.size(), 0);
        if (codec::unescape_json(piece.text, text.data()) != piece.bytes) std::abort();
      } else if (piece.kind == Piece::Kind::kBytes && piece.text.size() != piece.bytes) {
        std::abort();
      }
      out +=
          std::string(piece.text) + std::to_string(piece.token) + 'x' + std::to_string(piece.count);
    }
  }
  return out;
}

inline std::string describe(const UsageScan& scan) {
  const Usage& u = scan.usage();
  return std::to_string(u.present) + ' ' + std::to_string(u.prompt_tokens) + ' ' +
         std::to_string(u.completion_tokens) + ' ' + std::to_string(u.total_tokens) + ' ' +
         std::to_string(u.cached_tokens.value_or(-1)) + ' ' + std::to_string(scan.events());
}

}  // namespace llmd::request
