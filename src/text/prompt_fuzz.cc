#include "segments.h"

#include "base/check.h"
#include "text/testing/tiny_model.h"

#include <cstdint>

namespace {

using namespace llmd;
using namespace llmd::text;

const Model& model() {
  static const auto opened =
      Model::of(testing::TinyModel::tokenizer(), testing::TinyModel::config(), "");
  CHECK(opened);
  return **opened;
}

/// Parts of a text have the tokens of the whole, wherever it is cut.
void check_text(std::string_view text) {
  Tokens whole, parts;
  if (!model().encode(text, whole)) return CHECK(model().cuts(text, 1).empty());
  CHECK(whole.size() <= text.size());
  size_t from = 0;
  for (const size_t at : model().cuts(text, 1)) {
    CHECK(at > from && at <= text.size());
    CHECK(model().encode(text.substr(from, at - from), parts));
    from = at;
  }
  CHECK(model().encode(text.substr(from), parts));
  CHECK(parts == whole);
}

}  // namespace

/// Whatever is a request's body or a text: prompts in bounds, or an error that says why not.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  check_text(input);
  for (const bool chat : {true, false}) {
    const auto prompts = model().read(input, chat);
    if (!prompts) {
      CHECK(!prompts.error().message.empty());
      continue;
    }
    CHECK(!chat || prompts->texts.size() == 1);
    for (const auto& text : prompts->texts) check_text(text);
  }
  return 0;
}
