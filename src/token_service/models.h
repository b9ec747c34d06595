#pragma once

#include "base/result.h"
#include "token_service/server.h"

#include <string_view>
#include <vector>

namespace llmd::token_service {

/// The models that are served, by name.
class Models {
 public:
  explicit Models(std::vector<NamedModel> models) : models_(std::move(models)) {}

  /// "": the only one. Errors have the nearest name.
  Result<render::PromptRenderer*> find(std::string_view name) const;

 private:
  const std::vector<NamedModel> models_;
};

/// The value of "model" in a request's body; "" when there is none.
std::string model_of(std::string_view body);

}  // namespace llmd::token_service
