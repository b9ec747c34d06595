#pragma once

#include "config/loader.h"
#include "fleet/metrics_source.h"
#include "plugin/registry.h"
#include "request/parser.h"
#include "schedule/attributes.h"
#include "schedule/wiring.h"

#include <string>

/// The least of every kind of plugin, under the names that the loader knows, for tests of the
/// loader.
namespace llmd::config::fake {

using plugin::Context;
using plugin::Descriptor;
using schedule::Need;

struct Filter : schedule::Filter {
  size_t filter(schedule::RequestContext&, std::span<uint32_t> selected) const override {
    return selected.size();
  }
};

struct Scorer : schedule::Scorer {
  void score(schedule::RequestContext&, std::span<const uint32_t>,
             std::span<double>) const override {}
};

struct FilterScorer : schedule::Filter, schedule::Scorer {
  size_t filter(schedule::RequestContext&, std::span<uint32_t> selected) const override {
    return selected.size();
  }
  void score(schedule::RequestContext&, std::span<const uint32_t>,
             std::span<double>) const override {}
};

struct Picker : schedule::Picker {
  size_t pick(schedule::RequestContext&, std::span<const uint32_t>, std::span<const double>,
              std::span<uint32_t>) const override {
    return 0;
  }
};

struct Handler : schedule::ProfileHandler {
  Status bind(std::span<const std::string> names) override {
    if (names.size() == 1) return {};
    return fail(Code::kBadRequest, "takes one profile, not " + std::to_string(names.size()));
  }
  size_t next(schedule::RequestContext&, std::span<uint16_t>) const override { return 0; }
  Status finish(schedule::RequestContext&) const override { return {}; }
};

struct ManyHandler : Handler {
  Status bind(std::span<const std::string>) override { return {}; }
};

struct Detector : schedule::SaturationDetector {
  struct Params {
    Nanos staleness = std::chrono::milliseconds(200);
  };
  Detector(Params, const Context&) {}
  double saturation(std::span<const schedule::Candidate>, TimePoint) const override { return 0; }
};

struct Parser : request::Parser {
  std::span<const std::string_view> path_suffixes() const override { return {}; }
  request::BodyScan* scan_request(const request::Head&, Arena&) const override { return nullptr; }
  request::UsageScan* scan_response(std::string_view, bool, Arena&) const override {
    return nullptr;
  }
};

struct Source : fleet::MetricsSource {
  struct Params {
    std::optional<Nanos> interval;
  };
  Source(Params p, const Context&) { options_.interval = p.interval; }
  const Options& options() const override { return options_; }
  Options options_;
};

struct Extractor : fleet::MetricsExtractor {
  const Options& options() const override { return options_; }
  Options options_;
};

struct Discovery : fleet::DiscoveryPlugin {
  std::unique_ptr<fleet::Discovery> make_discovery() const override { return nullptr; }
};

struct Producer : schedule::Producer {
  Result<schedule::Progress> produce(schedule::RequestContext&) const override {
    return schedule::Progress::kDone;
  }
};

/// Produces prefix matches, and load too when asked; reads what its parameters name.
struct Prefix : Producer, schedule::PreRequest {
  struct Params {
    std::string needs;  // producer of an in-flight load that it requires
    std::string uses;   // … that it reads if there is one
  };
  Prefix(Params p, const Context&) : params(std::move(p)) {}
  void wire(schedule::Wiring& wiring) override {
    wiring.produces<schedule::PrefixMatch>();
    wiring.produces<schedule::InFlightLoad>();
    if (!params.needs.empty())
      wiring.consumes<schedule::InFlightLoad>(params.needs, Need::kRequired);
    if (!params.uses.empty()) wiring.consumes<schedule::InFlightLoad>(params.uses, Need::kOptional);
  }
  Status pre_request(schedule::RequestContext&) const override { return {}; }
  Params params;
};

/// Reads prefix matches.
struct PrefixScorer : Scorer {
  struct Params {
    std::string producer = "approx-prefix-cache-producer";
    int64_t block_size = 16;
    bool old = false;
  };
  PrefixScorer(Params p, const Context&) : params(std::move(p)) {}
  void wire(schedule::Wiring& wiring) override {
    wiring.consumes<schedule::PrefixMatch>(params.producer, Need::kRequired);
  }
  Params params;
};

/// Claims a prefix match of another value type.
struct OtherPrefixMatch {
  static constexpr const char* kKey = schedule::PrefixMatch::kKey;
};
struct MistypedScorer : Scorer {
  void wire(schedule::Wiring& wiring) override {
    wiring.consumes<OtherPrefixMatch>("approx-prefix-cache-producer", Need::kRequired);
  }
};

/// Runs before request control, yet reads what that produces.
struct EarlyDetector : schedule::SaturationDetector {
  double saturation(std::span<const schedule::Candidate>, TimePoint) const override { return 0; }
  void wire(schedule::Wiring& wiring) override {
    wiring.consumes<schedule::PrefixMatch>("approx-prefix-cache-producer", Need::kRequired);
  }
};

plugin::Registry registry();

}  // namespace llmd::config::fake
