#include "model_choice.h"

#include <gtest/gtest.h>

#include <vector>

namespace llmd::route {
namespace {

using request::Objects;

const Objects kObjects({}, {{.name = "r",
                             .rules = {{.models = {"food"}, .targets = {{"food-v2", {}}}}}}});

TEST(ChooseModel, TakesRuleThenHeaderThenBody) {
  const HeaderField asks[] = {{"x-llm-d-model-name-rewrite", "other"}};
  const HeaderField asks_as_before[] = {{"x-gateway-model-name-rewrite", "other"}};
  const HeaderField hides[] = {{"x-gateway-model-name-rewrite", "other"},
                               {"x-llm-d-model-name-rewrite", ""}};
  Rng rng(1);
  const struct {
    const Objects* objects;
    HeaderView headers;
    std::string_view incoming, model, rewrite;
  } kCases[] = {
      {nullptr, {}, "food", "food", ""},
      {&kObjects, {}, "food", "food-v2", "r"},
      {&kObjects, {}, "drink", "drink", ""},
      {&kObjects, HeaderView(asks), "food", "food-v2", "r"},
      {&kObjects, HeaderView(asks), "drink", "other", ""},
      {nullptr, HeaderView(asks_as_before), "drink", "other", ""},
      {nullptr, HeaderView(hides), "drink", "drink", ""},
      {nullptr, HeaderView(asks), "", "other", ""},
  };
  for (const auto& c : kCases) {
    const auto choice = choose_model(c.objects, c.headers, c.incoming, rng);
    EXPECT_EQ(choice.model, c.model);
    EXPECT_EQ(choice.rewrite, c.rewrite);
  }
}

std::string spliced(std::string body, const Splice& splice) {
  return body.replace(splice.range.begin, splice.range.end - splice.range.begin,
                      splice.replacement);
}

TEST(ModelSplice, ReplacesTheValueOrAddsTheMember) {
  Arena arena;
  request::RequestView view;
  const std::string without = " {\"prompt\":\"x\"}";
  EXPECT_EQ(spliced(without, model_splice(view, without, "a\"b", arena)),
            " {\"model\":\"a\\\"b\",\"prompt\":\"x\"}");
  const std::string with = "{\"model\": null,\"prompt\":\"x\"}";
  view.model_value = request::Range{10, 14};
  EXPECT_EQ(spliced(with, model_splice(view, with, "m", arena)),
            "{\"model\": \"m\",\"prompt\":\"x\"}");
}

TEST(ModelSplice, ReplacesNamesInFormsAsTheyStand) {
  Arena arena;
  request::RequestView view;
  view.model_value = request::Range{3, 5};
  view.model_is_text = true;
  const Splice splice = model_splice(view, "x: ab", "c\"d", arena);
  EXPECT_EQ(splice.range.begin, 3u);
  EXPECT_EQ(splice.range.end, 5u);
  EXPECT_EQ(splice.replacement, "c\"d");
}

}  // namespace
}  // namespace llmd::route
