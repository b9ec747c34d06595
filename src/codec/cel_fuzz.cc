#include "codec/cel.h"

#include <bit>
#include <cstdint>
#include <cstdlib>

using namespace llmd;
using namespace llmd::codec;

namespace {

struct Things final : CelMap {
  std::optional<CelValue> find(std::string_view key) const override {
    if (key == "a") return 1.5;
    if (key == "b") return std::string_view("text");
    if (key == "self") return static_cast<const CelMap*>(this);
    return std::nullopt;
  }
  size_t size() const override { return 3; }
};

bool same(const CelValue& a, const CelValue& b) {
  const auto* x = std::get_if<double>(&a);
  const auto* y = std::get_if<double>(&b);
  return x && y ? std::bit_cast<uint64_t>(*x) == std::bit_cast<uint64_t>(*y) : a == b;
}

}  // namespace

/// Any text compiles or says why not, at a place within it; what compiles has one outcome.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const Things things;
  const std::string_view names[] = {"m", "i", "s"};
  const CelValue values[] = {static_cast<const CelMap*>(&things), int64_t{7},
                             std::string_view("é")};
  const auto compiled = Cel::compile(text, names);
  if (!compiled) {
    if (compiled.error().message.empty()) std::abort();
    return 0;
  }
  Arena first, second;
  const auto a = compiled->evaluate(values, first);
  const auto b = Cel(*compiled).evaluate(values, second);
  if (a.has_value() != b.has_value()) std::abort();
  if (a ? !same(*a, *b) : a.error().text() != b.error().text() || a.error().what.empty())
    std::abort();
  return 0;
}
