#pragma once

#include "base/arena.h"
#include "base/headers.h"
#include "base/rng.h"
#include "codec/json_rename.h"
#include "request/objects.h"
#include "request/request_view.h"
#include "route/session.h"

#include <optional>
#include <span>
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

/// The model's name in one request and its answer, where another serves it than the client named.
class ModelRewrite {
 public:
  void reset() {
    splice_.reset();
    rename_.reset();
  }
  /// `body` has to ask for `model`.
  void ask_for(std::string_view model, const request::RequestView& view, std::string_view body,
               Arena& arena) {
    splice_ = model_splice(view, body, model, arena);
  }
  std::span<const Splice> splices() const {
    return splice_ ? std::span(&*splice_, 1) : std::span<const Splice>{};
  }
  /// The answer comes, which names `model`.
  void answer_names(std::string_view model, const request::RequestView& view) {
    if (splice_ && !view.model.empty()) rename_.emplace("model", model, view.model);
  }
  /// What the answer has to pass; null: nothing.
  codec::JsonRename* renaming() { return rename_ ? &*rename_ : nullptr; }

 private:
  std::optional<Splice> splice_;
  std::optional<codec::JsonRename> rename_;
};

}  // namespace llmd::route
