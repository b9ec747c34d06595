#include "requests.h"

#include "base/check.h"
#include "plugin/state_store.h"
#include "request/parsers.h"

#include <cstdint>

/// Any bytes as a body and as a message: what is asked, in bounds, or an error that says why not.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace llmd;
  using kv_indexer::BodyKind;
  static plugin::StateStore state;
  static metric::Registry metrics{1};
  static const plugin::Made parser =
      *request::openai_parser().make({"openai-parser", state, metrics, real_clock()}, nullptr);
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto check = [](const Result<kv_indexer::ScoreRequest>& request) {
    if (!request) return CHECK(!request.error().message.empty());
    CHECK(!request->question.model.empty());
    CHECK(request->question.pods.size() <= kv_indexer::kPodsMax);
    CHECK(request->tokens.size() <= kv_indexer::kPromptsMax);
  };
  check(kv_indexer::read_message(bytes, {}));
  for (const auto kind : {BodyKind::kCompletion, BodyKind::kChat, BodyKind::kEither})
    check(kv_indexer::read_body(bytes, kind, dynamic_cast<const request::Parser&>(*parser.plugin),
                                {}));
  return 0;
}
