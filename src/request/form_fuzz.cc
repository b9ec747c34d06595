#include "openai_scan.h"

#include <cstdint>
#include <cstdlib>
#include <string>

using namespace llmd;
using namespace llmd::request;

namespace {

constexpr std::string_view kType = "multipart/form-data; boundary=b";

std::string describe(const Result<RequestView>& view) {
  if (!view) return view.error().message;
  std::string out(view->model);
  if (view->model_value)
    out += ' ' + std::to_string(view->model_value->begin) + ' ' +
           std::to_string(view->model_value->end);
  return out + (view->stream ? " stream" : "");
}

std::string scan(const std::string& body, size_t step) {
  Arena arena;
  BodyScan* scan = scan_audio(kType, arena);
  for (size_t end = step; end < body.size(); end += step) scan->feed(std::string(body, 0, end));
  return describe(scan->finish(body));
}

}  // namespace

/// The first byte sets the piece size. What is read does not depend on how the form is cut; and
/// with another model in its place the form reads as before but for that.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const size_t step = data[0] + 1;
  const std::string body(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (scan(body, step) != scan(body, body.size() + 1)) std::abort();
  Arena arena;
  const auto view = scan_audio(kType, arena)->finish(body);
  if (!view || !view->rewritable) return 0;
  const auto [begin, end] = *view->model_value;
  const std::string other = body.substr(0, begin) + "another" + body.substr(end);
  const auto again = scan_audio(kType, arena)->finish(other);
  if (!again || again->model != "another" || again->stream != view->stream ||
      again->model_value->begin != begin || again->model_value->end != begin + 7)
    std::abort();
  return 0;
}
