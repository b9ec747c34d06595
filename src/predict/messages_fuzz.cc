#include "messages.h"

#include "base/check.h"

#include <cmath>
#include <cstdint>

namespace {

using namespace llmd;

std::string read(std::string_view answer, size_t step) {
  predict::PredictionsReader reader;
  for (size_t at = 0; at < answer.size(); at += step) reader.feed(answer.substr(at, step));
  const auto predictions = reader.finish();
  if (!predictions) return "refused";
  std::string out;
  for (const auto& p : *predictions) {
    for (const double ms : {p.ttft_ms, p.tpot_ms}) CHECK(std::isfinite(ms) && ms >= 0);
    out += std::to_string(p.ttft_ms) + '/' + std::to_string(p.tpot_ms) + ' ';
  }
  return out;
}

}  // namespace

/// The first byte sets the piece size. The predictions do not depend on how the answer is cut.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view answer(reinterpret_cast<const char*>(data) + 1, size - 1);
  CHECK(read(answer, size) == read(answer, data[0] + 1u));
  return 0;
}
