#include "precise_lookup.h"

#include "plugin/registry.h"
#include "schedule/moved_hook.h"

namespace llmd::plugins {
namespace {

using schedule::RequestContext;

/// Knows from the engines' events which endpoint holds which prefix.
class PrecisePrefixCacheProducer final : public schedule::Producer,
                                         public schedule::PreRequest,
                                         public schedule::ResponseHook,
                                         public schedule::MovedHook {
 public:
  static Result<std::unique_ptr<PrecisePrefixCacheProducer>> create(
      PreciseParams params, const plugin::Context& context) {
    LLMD_TRY(complete(params));
    return std::make_unique<PrecisePrefixCacheProducer>(params, context);
  }

  PrecisePrefixCacheProducer(const PreciseParams& params, const plugin::Context& context)
      : lookup_(params, identity(params, false), context) {}

  void wire(schedule::Wiring& wiring) override { lookup_.wire(wiring); }

  Result<schedule::Progress> produce(RequestContext& context) const override {
    return lookup_.produce(context);
  }
  Nanos deadline() const override { return PreciseLookup::kSharedTimeout; }
  Status pre_request(RequestContext& context) const override {
    lookup_.commit(context);
    return {};
  }
  void on_moved(RequestContext& context) const override { lookup_.on_moved(context); }
  void on_end(RequestContext& context, schedule::EndCause cause,
              const request::Usage& usage) const override {
    lookup_.on_end(context, cause, usage);
  }
  std::string dump_state() const override { return lookup_.dump(); }

 private:
  PreciseLookup lookup_;
};

}  // namespace

const plugin::Descriptor& precise_prefix_cache_producer() {
  static const auto descriptor = plugin::describe<PrecisePrefixCacheProducer>(
      {.type = "precise-prefix-cache-producer",
       .kind = "producer",
       .summary = "Knows from the KV events of engines which endpoint holds which prefix. Prompts "
                  "must come as the engine's token ids."},
      kv_precise::precise_params(false));
  return descriptor;
}

}  // namespace llmd::plugins
