#include "anthropic_scan.h"
#include "openai_scan.h"
#include "usage_scan.h"

#include "codec/json_text.h"

#include <cstdint>
#include <cstdlib>
#include <string>

using namespace llmd;
using namespace llmd::request;

namespace {

/// Everything that a scan says, as text.
std::string describe(const Result<RequestView>& view) {
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

std::string describe(const UsageScan& scan) {
  const Usage& u = scan.usage();
  return std::to_string(u.present) + ' ' + std::to_string(u.prompt_tokens) + ' ' +
         std::to_string(u.completion_tokens) + ' ' + std::to_string(u.total_tokens) + ' ' +
         std::to_string(u.cached_tokens.value_or(-1)) + ' ' + std::to_string(scan.events());
}

std::string scan_body(BodyScan* (*make)(Arena&), const std::string& text, size_t step) {
  Arena arena;
  BodyScan* scan = make(arena);
  for (size_t end = step; end < text.size(); end += step) scan->feed(std::string(text, 0, end));
  return describe(scan->finish(text));
}

std::string usage_of(UsageFormat format, bool streaming, const std::string& text, size_t step) {
  Arena arena;
  UsageScan* scan = scan_usage(format, streaming, arena);
  for (size_t at = 0; at < text.size(); at += step) scan->feed(std::string(text, at, step));
  scan->finish();
  return describe(*scan);
}

}  // namespace

/// The first byte sets the piece size. What is read from a request or an answer does not depend on
/// how it is cut.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const size_t step = data[0] + 1;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  for (auto make : {scan_completions, scan_chat, scan_embeddings, scan_responses,
                    scan_conversations, scan_images, scan_messages})
    if (scan_body(make, text, text.size() + 1) != scan_body(make, text, step)) std::abort();
  for (auto format : {UsageFormat::kOpenAi, UsageFormat::kAnthropic, UsageFormat::kSglang})
    for (bool streaming : {false, true})
      if (usage_of(format, streaming, text, text.size() + 1) !=
          usage_of(format, streaming, text, step))
        std::abort();
  return 0;
}
