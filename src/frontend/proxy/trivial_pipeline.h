#pragma once

#include "route/director.h"
#include "schedule/pipeline.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

/// The least pipeline that routes: any body, a random endpoint. For tests and for measuring the
/// proxy alone.
namespace llmd::frontend::testing {

/// Accepts any body whose text is not "bad".
class AnyBodyParser final : public request::Parser {
  struct Scan final : request::BodyScan {
    void feed(std::string_view) override {}
    Result<request::RequestView> finish(std::string_view body) override {
      if (body == "bad") return fail(Code::kBadRequest, "unreadable");
      return request::RequestView{};
    }
  };

 public:
  std::span<const std::string_view> path_suffixes() const override { return {}; }
  request::BodyScan* scan_request(std::string_view, Arena& arena) const override {
    return arena.make<Scan>();
  }
  request::UsageScan* scan_response(std::string_view, bool, Arena&) const override {
    return nullptr;
  }
};

class OnlyProfile final : public schedule::ProfileHandler {
 public:
  Status bind(std::span<const std::string>) override { return {}; }
  size_t next(schedule::RequestContext& c, std::span<uint16_t> run) const override {
    if (c.results[0].ran) return 0;
    run[0] = 0;
    return 1;
  }
  Status finish(schedule::RequestContext& c) const override {
    if (c.results[0].failed) return fail(Code::kResourceExhausted, "none left");
    c.primary = 0;
    return {};
  }
};

class AnyPicker final : public schedule::Picker {
 public:
  size_t pick(schedule::RequestContext& c, std::span<const uint32_t> selected,
              std::span<const double>, std::span<uint32_t> picked) const override {
    picked[0] = selected[c.rng.below(selected.size())];
    return 1;
  }
};

inline std::shared_ptr<schedule::Pipeline> trivial_pipeline() {
  auto pipeline = std::make_shared<schedule::Pipeline>();
  auto parser = std::make_unique<AnyBodyParser>();
  const request::Parser* parsers[] = {parser.get()};
  pipeline->parsers = request::ParserTable(parsers);
  pipeline->plugins.push_back(std::move(parser));
  auto handler = std::make_unique<OnlyProfile>();
  pipeline->handler.plugin = handler.get();
  pipeline->plugins.push_back(std::move(handler));
  auto picker = std::make_unique<AnyPicker>();
  schedule::Profile profile;
  profile.name = "default";
  profile.picker.plugin = picker.get();
  pipeline->plugins.push_back(std::move(picker));
  pipeline->profiles.push_back(std::move(profile));
  return pipeline;
}

inline std::vector<fleet::EndpointSpec> endpoints_at(std::initializer_list<uint16_t> ports) {
  std::vector<fleet::EndpointSpec> specs;
  for (const uint16_t port : ports)
    specs.push_back({.name = "e" + std::to_string(port), .address = "127.0.0.1", .port = port});
  return specs;
}

}  // namespace llmd::frontend::testing
