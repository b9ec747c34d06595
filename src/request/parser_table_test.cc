#include "request/parser.h"

#include <gtest/gtest.h>

namespace llmd::request {
namespace {

class Claims final : public Parser {
 public:
  explicit Claims(std::vector<std::string_view> suffixes) : suffixes_(std::move(suffixes)) {}
  std::span<const std::string_view> path_suffixes() const override { return suffixes_; }
  BodyScan* scan_request(const Head&, Arena&) const override { return nullptr; }
  UsageScan* scan_response(std::string_view, bool, Arena&) const override { return nullptr; }

 private:
  std::vector<std::string_view> suffixes_;
};

TEST(ParserTable, LongestSuffixWinsThenTheFirstConfigured) {
  const Claims a({"completions"}), b({"chat/completions", "completions"}), raw({}), late({});
  const Parser* const parsers[] = {&a, &b, &raw, &late};
  const ParserTable table(parsers);
  EXPECT_EQ(table.resolve("/v1/completions"), &a);
  EXPECT_EQ(table.resolve("/v1/chat/completions"), &b);
  EXPECT_EQ(table.resolve("/v1/chat/completions/"), &b);
  EXPECT_EQ(table.resolve("/v1/xcompletions"), &a);
  EXPECT_EQ(table.resolve("/v1/Completions"), &raw);
  EXPECT_EQ(table.resolve("/v1/chat/completions//"), &raw);
}

TEST(ParserTable, WithoutFallbackOtherPathsHaveNoParser) {
  const Claims a({"completions"});
  const Parser* const parsers[] = {&a};
  EXPECT_EQ(ParserTable(parsers).resolve("/health"), nullptr);
  EXPECT_EQ(ParserTable().resolve("/v1/completions"), nullptr);
}

}  // namespace
}  // namespace llmd::request
