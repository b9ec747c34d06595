#pragma once

#include "base/result.h"

#include <string>
#include <string_view>

namespace llmd::render {

/// A request of Anthropic's messages API as a chat for a render endpoint (spec 05 §9): model,
/// messages and tools, with all that a chat template sees. `body` is a request that its parser has
/// taken; of anything else what is understood is used. Errors: it is no JSON object.
Result<std::string> chat_of_messages(std::string_view body, std::string_view model);

}  // namespace llmd::render
