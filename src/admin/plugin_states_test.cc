#include "plugin_states.h"

#include <gtest/gtest.h>

namespace llmd::admin {
namespace {

class Stateful final : public plugin::Plugin {
  std::string dump_state() const override { return R"({"pods":[]})"; }
};
class Stateless final : public plugin::Plugin {};

TEST(Rfc3339Nanos, PrintsUtcWithNineDigits) {
  EXPECT_EQ(rfc3339_nanos(WallTime(std::chrono::nanoseconds(1'700'000'000'000'000'042))),
            "2023-11-14T22:13:20.000000042Z");
}

TEST(PluginStates, ShowsStateOrAMessage) {
  Stateful stateful;
  Stateless stateless;
  schedule::Pipeline pipeline;
  pipeline.resolved.push_back({"a\"b", "t", "", "", &stateful});
  pipeline.resolved.push_back({"c", "c", "", "", &stateless});
  EXPECT_EQ(plugin_states(pipeline, WallTime{}),
            R"({"timestamp":"1970-01-01T00:00:00.000000000Z","plugins":{)"
            R"("a\"b":{"name":"a\"b","type":"t","state":{"pods":[]}},)"
            R"("c":{"name":"c","type":"c","message":"plugin has no state to show"}}})");
}

}  // namespace
}  // namespace llmd::admin
