#pragma once

#include "schedule/interfaces.h"

namespace llmd::schedule {

/// For a PreRequest: takes back what it noted of the chosen endpoint when another one answers, as
/// the proxy in front says. That one is the primary profile's target by then. Comes before
/// on_response_head(), and rarely: it is looked for when it is needed.
class MovedHook {
 public:
  virtual void on_moved(RequestContext& context) const = 0;

 protected:
  ~MovedHook() = default;
};

}  // namespace llmd::schedule
