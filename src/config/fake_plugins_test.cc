#include "fake_plugins.h"

namespace llmd::config::fake {

using plugin::describe;
using plugin::field;
using plugin::Params;

plugin::Registry registry() {
  const Params<Prefix::Params> prefix = {field("needs", &Prefix::Params::needs, "", ""),
                                         field("uses", &Prefix::Params::uses, "", "")};
  const Params<PrefixScorer::Params> scorer = {
      field("prefixMatchInfoProducerName", &PrefixScorer::Params::producer, "", ""),
      field("blockSize", &PrefixScorer::Params::block_size, "tokens", "").positive(),
      field("old", &PrefixScorer::Params::old, "", "").deprecated()};
  const Params<Detector::Params> detector = {
      field("metricsStalenessThreshold", &Detector::Params::staleness, "", "")};
  const Params<Source::Params> source = {field("interval", &Source::Params::interval, "", "")};
  return plugin::Registry({
      describe<Filter>({.type = "some-filter", .kind = "filter"}),
      describe<Scorer>({.type = "queue-scorer", .kind = "scorer", .ignores_parameters = true}),
      describe<Scorer>({.type = "kv-cache-utilization-scorer", .kind = "scorer"}),
      describe<PrefixScorer>({.type = "prefix-cache-scorer", .kind = "scorer"}, scorer),
      describe<FilterScorer>({.type = "context-length-aware", .kind = "scorer"}),
      describe<Scorer>({.type = "old-scorer", .kind = "scorer", .replaced_by = "queue-scorer"}),
      describe<Scorer>({.type = "alpha-scorer", .stability = plugin::Stability::kAlpha}),
      describe<MistypedScorer>({.type = "mistyped-scorer"}),
      describe<Picker>({.type = "max-score-picker", .kind = "picker"}),
      describe<Picker>({.type = "random-picker", .kind = "picker"}),
      describe<Handler>({.type = "single-profile-handler", .kind = "profile handler"}),
      describe<ManyHandler>({.type = "many-profile-handler", .kind = "profile handler"}),
      describe<Detector>({.type = "utilization-detector"}, detector),
      describe<EarlyDetector>({.type = "early-detector"}),
      describe<Parser>({.type = "openai-parser"}),
      describe<Parser>({.type = "anthropic-parser"}),
      describe<Parser>({.type = "vllmhttp-parser"}),
      describe<Parser>({.type = "passthrough-parser"}),
      describe<Source>({.type = "metrics-data-source"}, source),
      describe<Extractor>({.type = "core-metrics-extractor"}),
      describe<Discovery>({.type = "file-discovery", .kind = "discovery"}),
      describe<Prefix>({.type = "approx-prefix-cache-producer",
                        .produces_by_default = {"PrefixCacheMatchInfoDataKey/"
                                                "approx-prefix-cache-producer"}},
                       prefix),
      describe<Prefix>({.type = "precise-prefix-cache-producer"}, prefix),
      describe<Prefix>({.type = "inflight-load-producer",
                        .produces_by_default = {"InFlightLoadDataKey/inflight-load-producer"}},
                       prefix),
  });
}

}  // namespace llmd::config::fake
