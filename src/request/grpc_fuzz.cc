#include "grpc_scan.h"
#include "scan_fuzz_support.h"

#include <cstdint>
#include <string>

using namespace llmd;
using namespace llmd::request;

namespace {

std::string usage_of(UsageScan* scan, const std::string& text, size_t step) {
  for (size_t at = 0; at < text.size(); at += step) scan->feed(std::string(text, at, step));
  scan->finish();
  return describe(*scan);
}

}  // namespace

/// The first byte chooses the method, the second sets the piece size. Any body is read or refused,
/// and what is read from an answer does not depend on how it is cut.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  constexpr std::string_view kMethods[] = {
      "/vllm.grpc.engine.VllmEngine/Generate", "/vllm.grpc.engine.VllmEngine/Embed",
      "/x.PredictionService/ChatCompletions", "/x.PredictionService/StreamRawPredict"};
  const size_t method = data[0] % 4;
  const size_t step = data[1] + 1;
  const std::string text(reinterpret_cast<const char*>(data) + 2, size - 2);
  const bool vllm = method < 2;
  {
    Arena arena;
    describe((vllm ? scan_vllm_grpc : scan_vertex)(kMethods[method], arena)->finish(text));
  }
  Arena first, second;
  const auto make = [&](Arena& arena) {
    return vllm ? scan_vllm_grpc_usage(kMethods[method], arena) : scan_vertex_usage(arena);
  };
  if (usage_of(make(first), text, text.size() + 1) != usage_of(make(second), text, step))
    std::abort();
  return 0;
}
