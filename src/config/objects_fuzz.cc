#include "base/check.h"
#include "base/rng.h"
#include "config/objects_dir.h"

#include <cstdint>

/// Whatever the file holds: an error that says where, or objects that can be asked.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace llmd;
  config::ObjectsRead read;
  const auto parsed =
      config::parse_objects({reinterpret_cast<const char*>(data), size}, "f", "pool", read);
  if (!parsed) {
    CHECK(!parsed.error().message.empty());
    return 0;
  }
  for (const auto& objective : read.objectives) CHECK(!objective.name.empty());
  const request::Objects objects(std::move(read.objectives), std::move(read.rewrites));
  CHECK(objects.priorities().size() <= objects.objectives());
  Rng rng(1);
  for (const auto& rewrite : objects.rewrites())
    for (const auto& rule : rewrite.rules) {
      request::choose_target(rule, rng);
      for (const auto& model : rule.models) CHECK(objects.rule_for(model).rule);
    }
  return 0;
}
