#include "header_rules.h"

#include <gtest/gtest.h>

#include <string>

namespace llmd::frontend::ext_proc {
namespace {

using Fields = std::vector<HeaderField>;

std::string echoed(const Fields& headers, Fields out = {}) {
  echo(HeaderView(headers), out);
  std::string text;
  for (const auto& field : out) text.append(field.name).append("=").append(field.value).append(" ");
  return text;
}

TEST(HeaderRules, EchoesAllButWhatBelongsToRouting) {
  EXPECT_EQ(echoed({{":path", "/p"},
                    {"accept", "a"},
                    {"content-length", "3"},
                    {"x-llm-d-inference-objective", "o"},
                    {"x-gateway-inference-fairness-id", "f"},
                    {"x-llm-d-video-fps", "2"},
                    {"X-SLO-TTFT-MS", "1"},
                    {"x-gateway-destination-endpoint", "evil:1"},
                    {"x-gateway-destination-endpoint-subset", "evil:1"},
                    {"x-prefiller-host-port", "evil:1"},
                    {"x-request-id", "r"},
                    {"x-own", "1"}}),
            ":path=/p accept=a x-request-id=r x-own=1 ");
}

TEST(HeaderRules, LeavesRepeatedLinesAlone) {
  EXPECT_EQ(echoed({{"set-cookie", "a"}, {"x", "1"}, {"Set-Cookie", "b"}}), "x=1 ");
}

TEST(HeaderRules, DoesNotUndoWhatIsSetAlready) {
  EXPECT_EQ(echoed({{"x-request-id", ""}, {"x", "1"}}, {{"x-request-id", "made"}}),
            "x-request-id=made x=1 ");
}

TEST(HeaderRules, EchoesNothingOfHugeHeads) {
  std::vector<std::string> names;
  for (int i = 0; i < 2000; ++i) names.push_back("x-" + std::to_string(i));
  Fields headers;
  for (const auto& name : names) headers.push_back({name, "v"});
  EXPECT_EQ(echoed(headers), "");
}

TEST(HeaderRules, RemovesWhatTellsServersWhereToConnect) {
  for (const auto* name :
       {"x-prefiller-host-port", "X-Encoder-Hosts-Ports", "x-data-parallel-host-port",
        "x-kv-cache-source-host-port", "x-gateway-destination-endpoint-served"})
    EXPECT_TRUE(is_removed(name)) << name;
  for (const auto* name : {"x-gateway-destination-endpoint", "x-request-id", "content-length", ""})
    EXPECT_FALSE(is_removed(name)) << name;
}

}  // namespace
}  // namespace llmd::frontend::ext_proc
