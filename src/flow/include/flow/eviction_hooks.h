#pragma once

#include "flow/evictor.h"
#include "schedule/interfaces.h"
#include "schedule/wiring.h"

#include <memory>

namespace llmd::flow {

/// Tells an evictor which requests are with their endpoints, try by try, and what those that it
/// took back had cost. Not a plugin that configurations name: the loader adds it where they enable
/// eviction. Threading: any.
class EvictionHooks final : public schedule::PreRequest, public schedule::ResponseHook {
 public:
  explicit EvictionHooks(std::shared_ptr<Evictor> evictor) : evictor_(std::move(evictor)) {}

  void wire(schedule::Wiring& wiring) override;
  Status pre_request(schedule::RequestContext& context) const override;
  void on_first_chunk(schedule::RequestContext& context) const override;
  void on_end(schedule::RequestContext& context, schedule::EndCause cause,
              const request::Usage& usage) const override;

 private:
  struct Try {
    Evictor::Running running;
    bool answering = false;
  };

  const std::shared_ptr<Evictor> evictor_;
  schedule::RequestSlot<Try> try_;
};

}  // namespace llmd::flow
