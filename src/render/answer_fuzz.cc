#include "answer.h"

#include "base/check.h"

#include <algorithm>
#include <cstdint>

/// Whatever a render endpoint answers: prompts in bounds, or an error that says why not.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace llmd;
  for (const bool chat : {true, false}) {
    const auto prompts = render::read_answer({reinterpret_cast<const char*>(data), size}, chat);
    if (!prompts) {
      CHECK(!prompts.error().message.empty());
      continue;
    }
    CHECK(!prompts->empty());
    for (const auto& prompt : *prompts) {
      CHECK(prompt.token_ids.size() <= size && prompt.media.size() <= request::kMediaMax);
      CHECK(std::ranges::is_sorted(prompt.media, {}, &render::Media::offset));
    }
  }
  return 0;
}
