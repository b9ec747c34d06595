#include "fleet/metrics_source.h"

#include <gtest/gtest.h>

namespace llmd::fleet {
namespace {

TEST(SeriesSpec, ReadsFamilyAndLabels) {
  const auto spec = parse_series_spec(R"( f:a{ x = 1, y="two words" } )");
  ASSERT_TRUE(spec);
  EXPECT_EQ(spec->family, "f:a");
  EXPECT_EQ(spec->labels,
            (std::vector<std::pair<std::string, std::string>>{{"x", "1"}, {"y", "two words"}}));
  EXPECT_TRUE(parse_series_spec("f{}"));
}

TEST(SeriesSpec, NamesWhatIsWrong) {
  EXPECT_EQ(parse_series_spec("").error().message,
            "'' is not a metric: the family name is missing");
  EXPECT_EQ(parse_series_spec("f{x=1").error().message,
            "'f{x=1' is not a metric: '}' is missing at the end");
  EXPECT_EQ(parse_series_spec("f{x}").error().message,
            "'f{x}' is not a metric: a label needs the form name=value");
}

TEST(BuiltinEngines, HaveUniqueNames) {
  for (const auto& a : builtin_engines())
    for (const auto& b : builtin_engines()) EXPECT_TRUE(&a == &b || a.name != b.name);
}

}  // namespace
}  // namespace llmd::fleet
