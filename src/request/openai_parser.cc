#include "openai_scan.h"
#include "usage_scan.h"

#include "request/parser.h"
#include "request/parsers.h"

namespace llmd::request {
namespace {

constexpr std::string_view kSuffixes[] = {
    "completions",
    "completions/render",
    "chat/completions",
    "chat/completions/render",
    "responses",
    "conversations",
    "embeddings",
    "images/generations",
    "audio/transcriptions",
    "audio/translations",
};

class OpenAiParser final : public Parser {
 public:
  std::span<const std::string_view> path_suffixes() const override { return kSuffixes; }

  BodyScan* scan_request(const Head& head, Arena& arena) const override {
    std::string_view path = head.path;
    if (path.ends_with('/')) path.remove_suffix(1);
    if (path.ends_with("conversations")) return scan_conversations(arena);
    if (path.ends_with("responses")) return scan_responses(arena);
    if (path.ends_with("chat/completions") || path.ends_with("chat/completions/render"))
      return scan_chat(arena);
    if (path.ends_with("embeddings")) return scan_embeddings(arena);
    if (path.ends_with("images/generations")) return scan_images(arena);
    if (path.ends_with("audio/transcriptions") || path.ends_with("audio/translations"))
      return scan_audio(head.content_type, arena);
    return scan_completions(arena);
  }

  UsageScan* scan_response(std::string_view, bool streaming, Arena& arena) const override {
    return scan_usage(UsageFormat::kOpenAi, streaming, arena);
  }
};

}  // namespace

const plugin::Descriptor& openai_parser() {
  static const plugin::Descriptor descriptor = plugin::describe<OpenAiParser>({
      .type = "openai-parser",
      .kind = "parser",
      .summary = "Reads OpenAI requests (completions, chat, embeddings, responses, conversations, "
                 "images, audio as forms) and the usage in their answers.",
  });
  return descriptor;
}

}  // namespace llmd::request
