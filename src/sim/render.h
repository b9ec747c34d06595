#pragma once

#include "api.h"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <string_view>

namespace llmd::sim {

/// The answer of the render endpoints: the tokens of a chat as an object, those of each prompt of a
/// completion in an array. Images, sounds and videos of a chat have made-up hashes and share the
/// tokens evenly. Requires: `request` was read from `body`.
std::string render_answer(const nlohmann::json& body, const GenerationRequest& request,
                          std::string_view id, std::string_view model);

}  // namespace llmd::sim
