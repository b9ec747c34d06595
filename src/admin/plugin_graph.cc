#include "plugin_graph.h"

#include <nlohmann/json.hpp>

namespace llmd::admin {
namespace {

using Json = nlohmann::ordered_json;

Json names(const auto& steps) {
  Json out = Json::array();
  for (const auto& step : steps) out.push_back(step.plugin->name());
  return out;
}

Json profile(const schedule::Profile& profile) {
  Json scorers = Json::array();
  for (const auto& scorer : profile.scorers)
    scorers.push_back({{"name", scorer.plugin->name()}, {"weight", scorer.weight}});
  return {{"name", profile.name},
          {"filters", names(profile.filters)},
          {"scorers", std::move(scorers)},
          {"picker", profile.picker.plugin->name()}};
}

}  // namespace

std::string plugin_graph(const schedule::Pipeline& pipeline) {
  Json plugins = Json::array();
  for (const auto& p : pipeline.resolved)
    plugins.push_back({{"name", p.name},
                       {"type", p.type},
                       {"origin", p.origin},
                       {"parameters", Json::parse(p.parameters, nullptr, false)}});
  Json profiles = Json::array();
  for (const auto& p : pipeline.profiles) profiles.push_back(profile(p));
  const Json out = {
      {"handler", pipeline.handler.plugin->name()},
      {"profiles", std::move(profiles)},
      {"request", names(pipeline.request)},
      {"screeners", names(pipeline.screeners)},
      {"producers", names(pipeline.producers)},
      {"admitters", names(pipeline.admitters)},
      {"preRequest", names(pipeline.pre_request)},
      {"response", names(pipeline.response)},
      {"detector", pipeline.detector ? Json(pipeline.detector->name()) : Json(nullptr)},
      {"plugins", std::move(plugins)}};
  return out.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace llmd::admin
