#include "models.h"

#include "base/text.h"
#include "codec/json_scan.h"
#include "codec/json_text.h"

#include <fmt/ranges.h>

#include <algorithm>

namespace llmd::token_service {
namespace {

enum : uint8_t { kRoot, kModel };
constexpr codec::JsonField kFields[] = {{kRoot, "model", kModel}};
constexpr codec::JsonSchema kSchema(kFields);

struct ModelSink final : codec::JsonSink {
  void open(uint8_t, codec::JsonKind, size_t) override {}
  void value(uint8_t id, const codec::JsonValue& value) override {
    if (id != kModel || value.kind != codec::JsonKind::kString) return;
    model.resize(value.inside().size());
    model.resize(codec::unescape_json(value.inside(), model.data()));
  }
  std::string model;
};

}  // namespace

Result<render::PromptRenderer*> Models::find(std::string_view name) const {
  if (name.empty() && models_.size() == 1) return models_.front().renderer.get();
  const auto found = std::ranges::find(models_, name, &NamedModel::name);
  if (found != models_.end()) return found->renderer.get();
  std::vector<std::string_view> names;
  names.reserve(models_.size());
  for (const auto& model : models_) names.push_back(model.name);
  if (name.empty())
    return fail(Code::kBadRequest,
                fmt::format("field 'model': required; one of {}", fmt::join(names, ", ")));
  return fail(Code::kNotFound,
              "there is no model '" + std::string(name) + "'" + suggestion(name, names));
}

std::string model_of(std::string_view body) {
  ModelSink sink;
  codec::JsonScanner scanner(kSchema, sink);
  scanner.feed(body);
  return std::move(sink.model);
}

}  // namespace llmd::token_service
