#include "codec/json_rename.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>

using llmd::codec::JsonRename;

namespace {

std::string rename(std::string_view text, size_t step, std::string_view from, std::string_view to,
                   size_t* held) {
  JsonRename rename("model", from, to);
  std::string out;
  size_t fed = 0;
  for (size_t at = 0; at < text.size(); at += step) {
    fed += std::min(step, text.size() - at);
    out += rename.pass(std::string(text.substr(at, step)), fed == text.size());
    if (from.size() == to.size()) *held = std::max(*held, fed - out.size());
  }
  return out;
}

}  // namespace

/// The first byte sets the piece size. How the text is cut changes nothing; a name of the same
/// length keeps the length; little is held; renaming back gives the text again where the new name
/// did not stand in it.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const size_t step = data[0] % 32 + 1;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  size_t held = 0;
  const std::string whole = rename(text, text.size() + 1, "big", "new", &held);
  if (whole != rename(text, step, "big", "new", &held)) std::abort();
  if (whole.size() != text.size() || held > 64) std::abort();
  if (text.find("new") == text.npos && rename(whole, step, "new", "big", &held) != text)
    std::abort();
  return 0;
}
