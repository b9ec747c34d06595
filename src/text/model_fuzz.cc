#include "model.h"

#include "base/check.h"
#include "text/testing/tiny_model.h"

#include <cstdint>

/// Whatever the files of a model are: a model that encodes and renders, or an error that says why
/// not. The first byte says which file the rest is.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace llmd;
  using namespace llmd::text;
  if (size == 0) return 0;
  const std::string_view file(reinterpret_cast<const char*>(data + 1), size - 1);
  const std::string tiny = testing::TinyModel::tokenizer();
  const auto model = data[0] % 3 == 0   ? Model::of(file, "", "")
                     : data[0] % 3 == 1 ? Model::of(tiny, file, "")
                                        : Model::of(tiny, "", file);
  if (!model) {
    CHECK(!model.error().message.empty());
    return 0;
  }
  Tokens tokens;
  if (!(*model)->encode("a<s>\nb 漢", tokens)) tokens.clear();
  const auto chat = (*model)->read(
      R"({"messages":[{"role":"user","content":"x"}],"tools":[{"function":{"name":"f"}}]})", true);
  CHECK(chat || !chat.error().message.empty());
  return 0;
}
