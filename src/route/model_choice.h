#pragma once

#include "base/arena.h"
#include "base/headers.h"
#include "base/rng.h"
#include "request/objects.h"
#include "request/request_view.h"
#include "route/session.h"

#include <string_view>

namespace llmd::route {

struct ModelChoice {
  std::string_view model;    // valid as long as the objects and the headers
  std::string_view rewrite;  // the object whose rule chose it; empty: none
};

/// The model that a request is served by (spec 01 §4): by the rule for the name in its body, else
/// by the header, else as the body says. `objects` may be null.
ModelChoice choose_model(const request::Objects* objects, HeaderView headers,
                         std::string_view incoming, Rng& rng);

/// What makes `body`, a JSON object or a form that names its model, ask for `model`. The
/// replacement is in `arena`.
Splice model_splice(const request::RequestView& view, std::string_view body, std::string_view model,
                    Arena& arena);

}  // namespace llmd::route
