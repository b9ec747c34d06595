#pragma once

#include "json_body_scan.h"

namespace llmd::request {

/// Before the JSON error of an OpenAI body.
inline constexpr std::string_view kMalformedMap = "error unmarshaling request bodyMap: ";

/// One scan per API, made in `arena`.
BodyScan* scan_completions(Arena& arena);
BodyScan* scan_embeddings(Arena& arena);
BodyScan* scan_chat(Arena& arena);
BodyScan* scan_responses(Arena& arena);
BodyScan* scan_conversations(Arena& arena);
BodyScan* scan_images(Arena& arena);
/// Transcriptions and translations: a form.
BodyScan* scan_audio(std::string_view content_type, Arena& arena);

}  // namespace llmd::request
