#include "idle_fleet.h"
#include "message_reader.h"

#include <gtest/gtest.h>

#include <set>

namespace llmd::regress {
namespace {

using namespace std::literals;

/// llm-d-router#1916, #981, #1240, #1147, #1625, #1909: lengths that wrapped, counts that were no
/// numbers, two requests with one id, and labels without bounds ended processes or filled them.

TEST(Case30, ALengthOfFourGigabytesIsRefused) {
  io::BufferPool buffers;
  io::ByteBudget budget{1 << 20};
  grpc::MessageReader reader{buffers, budget, 4 << 20};
  std::string_view input = "\0\xff\xff\xff\xff\x01\x02\x03"sv, message;
  EXPECT_EQ(reader.read(input, message), grpc::MessageReader::Result::kTooLarge);
  EXPECT_EQ(budget.used(), 0u);
}

class Case30Usage : public ::testing::TestWithParam<const char*> {};

TEST_P(Case30Usage, IsReadOrLeft) {
  conformance::Picker picker(idle_fleet(1));
  auto step = completion("probe", "\"p\"");
  step.reply = {R"({"usage":)" + std::string(GetParam()) + "}"};
  EXPECT_EQ(picker.run(step).received, step.reply[0]);
}

INSTANTIATE_TEST_SUITE_P(Values, Case30Usage,
                         ::testing::Values("\"text\"", "7", "[]", "null",
                                           R"({"prompt_tokens":"12"})",
                                           R"({"prompt_tokens":{},"completion_tokens":[1]})",
                                           R"({"prompt_tokens":1e400,"completion_tokens":-1})",
                                           R"({"prompt_tokens":99999999999999999999})",
                                           R"({"prompt_tokens":1,"prompt_tokens_details":"x"})"));

TEST(Case30, RequestsOfOneIdDoNotMeet) {
  auto fleet = idle_fleet(1);
  fleet.plugins =
      "- {type: active-request-scorer}\n- {type: session-affinity-scorer}\nschedulingProfiles:\n- "
      "name: default\n  plugins: [{pluginRef: active-request-scorer}, {pluginRef: "
      "session-affinity-scorer}]\n";
  conformance::Picker picker(fleet);
  auto step = completion("open", "\"p\"");
  step.headers = {{"x-request-id", "same"}};
  step.id = "first";
  picker.run(step);
  step.id = "second";
  picker.run(step);
  conformance::Step end;
  end.op = "abort";
  end.id = "first";
  picker.run(end);
  EXPECT_TRUE(picker.metrics().contains("llm_d_epp_inflight_requests{endpoint_name=\"e0\""));
  end.op = "close";
  end.id = "second";
  EXPECT_EQ(picker.run(end).received, step.reply[0]);
}

TEST(Case30, ModelsAreLabelsUpToALimit) {
  conformance::Picker picker(idle_fleet(1));
  for (int i = 0; i < 5000; ++i) {
    auto step = completion("probe", "\"p\"");
    step.body = R"({"model":"model-)" + std::to_string(i) + R"(","prompt":"p"})";
    ASSERT_EQ(picker.run(step).error, "");
  }
  const auto page = picker.metrics();
  std::set<std::string> models;
  const std::string mark = "llm_d_epp_request_total{";
  for (size_t at = 0; (at = page.find(mark, at)) != std::string::npos; ++at) {
    const auto label = page.find("model_name=\"", at) + 12;
    models.insert(page.substr(label, page.find('"', label) - label));
  }
  EXPECT_LE(models.size(), 1001u);
  EXPECT_TRUE(models.contains("other"));
}

}  // namespace
}  // namespace llmd::regress
