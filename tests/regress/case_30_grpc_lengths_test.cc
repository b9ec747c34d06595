#include "base/clock.h"
#include "request/parser.h"
#include "request/parsers.h"

#include <gtest/gtest.h>

#include <string>

namespace llmd::regress {
namespace {

using namespace std::literals;

/// llm-d-router#1916: the length of a gRPC message, added up in 32 bits, wrapped and ended the
/// process.

TEST(Case30, AMessageLongerThanItsBodyIsRefused) {
  plugin::StateStore state;
  metric::Registry metrics(1);
  ManualClock clock;
  for (const auto* descriptor : {&request::vllmgrpc_parser(), &request::vertexai_parser()}) {
    auto made = descriptor->make(plugin::Context{descriptor->type, state, metrics, clock}, nullptr);
    ASSERT_TRUE(made) << made.error().message;
    const auto& parser = dynamic_cast<const request::Parser&>(*made->plugin);
    const std::string path = "/" + std::string(parser.path_suffixes()[0]);
    Arena arena;
    const auto view = parser.scan_request({.path = path, .content_type = {}}, arena)
                          ->finish("\0\xff\xff\xff\xff\x0a\x01x"s);
    ASSERT_FALSE(view);
    EXPECT_EQ(view.error().message, "invalid or unsupported gRPC payload");
    auto* usage = parser.scan_response(path, true, arena);
    usage->feed("\0\xff\xff\xff\xff\x0a\x03\x10\x05\x18"s);
    usage->finish();
    EXPECT_FALSE(usage->usage().present);
  }
}

}  // namespace
}  // namespace llmd::regress
