#include "plugin/registry.h"
#include "producers/media_match.h"
#include "schedule/interfaces.h"
#include "schedule/wiring.h"

namespace llmd::plugins {
namespace {

struct Params {
  std::string producer = "mm-embeddings-cache-producer";
};

const plugin::Params<Params>& table() {
  static const plugin::Params<Params> params = {
      plugin::field("producerName", &Params::producer, "", "Producer of the matches."),
  };
  return params;
}

class MmEmbeddingsCacheScorer final : public schedule::Scorer {
 public:
  MmEmbeddingsCacheScorer(Params p, const plugin::Context&) : params_(std::move(p)) {}

  void wire(schedule::Wiring& wiring) override {
    matches_ = wiring.consumes<MediaMatch>(params_.producer, schedule::Need::kRequired);
  }

  void score(schedule::RequestContext& context, std::span<const uint32_t> selected,
             std::span<double> scores) const override {
    const auto matches = context.read(matches_);
    if (matches.empty()) return;
    for (size_t k = 0; k < selected.size(); ++k) {
      const MediaMatch& match = matches[selected[k]];
      if (match.total > 0)
        scores[k] = static_cast<double>(match.matched) / static_cast<double>(match.total);
    }
  }

 private:
  const Params params_;
  schedule::Consumed<MediaMatch> matches_;
};

}  // namespace

const plugin::Descriptor& mm_embeddings_cache_scorer() {
  static const auto descriptor = plugin::describe<MmEmbeddingsCacheScorer>(
      {.type = "mm-embeddings-cache-scorer",
       .kind = "scorer",
       .summary = "Prefers endpoints that have encoded the request's images, audio and video "
                  "before: the share of them."},
      table());
  return descriptor;
}

}  // namespace llmd::plugins
