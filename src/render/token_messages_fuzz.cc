#include "base/check.h"
#include "render/token_messages.h"

#include <algorithm>
#include <cstdint>

/// Whatever a tokenization service answers: a prompt in bounds, or an error that says why not. The
/// same bytes as a request: a body, which can be asked for again if it is JSON.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace llmd;
  const std::string_view message(reinterpret_cast<const char*>(data), size);
  for (const auto* method :
       {&render::kTokenize, &render::kRenderCompletion, &render::kRenderChat}) {
    const auto prompt = render::read_answer(*method, message);
    if (!prompt) {
      CHECK(!prompt.error().message.empty() && prompt.error().message.size() <= 1024);
      continue;
    }
    CHECK(prompt->token_ids.size() <= size && prompt->media.size() <= request::kMediaMax);
    CHECK(std::ranges::is_sorted(prompt->media, {}, &render::Media::offset));
  }
  (void)render::read_initialized(message);
  (void)render::read_initialize(message);
  for (const auto read : {render::read_tokenize, render::read_completion, render::read_chat})
    if (const auto asked = read(message)) (void)render::write_requests(asked->body, asked->chat);
  return 0;
}
