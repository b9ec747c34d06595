#pragma once

#include "base/result.h"
#include "render/prompt_renderer.h"

#include <string_view>
#include <vector>

namespace llmd::render {

/// The prompts in the answer of a render endpoint: an object for a chat, a list with one for each
/// prompt otherwise. Media without a place are left out. Errors name the field.
Rendered read_answer(std::string_view body, bool chat);

}  // namespace llmd::render
