#include "request/parser.h"

#include <algorithm>

namespace llmd::request {

std::string_view api_name(Api api) {
  switch (api) {
    case Api::kRaw:
      return "raw";
    case Api::kCompletions:
      return "completions";
    case Api::kChat:
      return "chat";
    case Api::kEmbeddings:
      return "embeddings";
    case Api::kResponses:
      return "responses";
    case Api::kConversations:
      return "conversations";
    case Api::kImages:
      return "images";
    case Api::kAudio:
      return "audio";
    case Api::kMessages:
      return "messages";
    case Api::kGenerate:
      return "generate";
  }
  return "unknown";
}

std::string_view modality_name(Modality modality) {
  switch (modality) {
    case Modality::kImage:
      return "image";
    case Modality::kAudio:
      return "audio";
    case Modality::kVideo:
      return "video";
  }
  return "unknown";
}

ParserTable::ParserTable(std::span<const Parser* const> parsers) {
  for (const Parser* parser : parsers) {
    const auto suffixes = parser->path_suffixes();
    if (suffixes.empty() && !fallback_) fallback_ = parser;
    for (std::string_view suffix : suffixes) suffixes_.emplace_back(suffix, parser);
  }
  std::stable_sort(suffixes_.begin(), suffixes_.end(),
                   [](const auto& a, const auto& b) { return a.first.size() > b.first.size(); });
}

const Parser* ParserTable::resolve(std::string_view path) const {
  if (path.ends_with('/')) path.remove_suffix(1);
  for (const auto& [suffix, parser] : suffixes_)
    if (path.ends_with(suffix)) return parser;
  return fallback_;
}

}  // namespace llmd::request
