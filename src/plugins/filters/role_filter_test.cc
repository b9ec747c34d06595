#include "schedule/testing.h"

#include <gtest/gtest.h>

namespace llmd::plugins {
const plugin::Descriptor& decode_filter();
const plugin::Descriptor& prefill_filter();
const plugin::Descriptor& encode_filter();

namespace {

using schedule::Filter;
using schedule::testing::Harness;
using schedule::testing::Labels;

struct Role {
  const char* value;  // null: no label
  bool decode, prefill, encode;
};

constexpr Role kRoles[] = {
    {"decode", true, false, false},
    {"prefill", false, true, false},
    {"encode", false, false, true},
    {"prefill-decode", true, true, false},
    {"both", true, true, false},
    {"encode-prefill", false, true, true},
    {"encode-prefill-decode", true, true, true},
    {"unknown", false, false, false},
    {"", false, false, false},
    {nullptr, true, false, false},
};

std::vector<Labels> labels() {
  std::vector<Labels> all;
  for (const auto& role : kRoles) {
    all.emplace_back();
    if (role.value) all.back().emplace_back("llm-d.ai/role", role.value);
  }
  return all;
}

std::vector<uint32_t> serving(bool Role::* stage) {
  std::vector<uint32_t> out;
  for (uint32_t i = 0; i < std::size(kRoles); ++i)
    if (kRoles[i].*stage) out.push_back(i);
  return out;
}

TEST(RoleFilter, KeepsTheRolesOfItsStageInOrder) {
  Harness harness(labels());
  EXPECT_EQ(harness.filtered(harness.make<Filter>(decode_filter())), serving(&Role::decode));
  EXPECT_EQ(harness.filtered(harness.make<Filter>(prefill_filter())), serving(&Role::prefill));
  EXPECT_EQ(harness.filtered(harness.make<Filter>(encode_filter())), serving(&Role::encode));
}

TEST(RoleFilter, MayLeaveNobody) {
  Harness harness(3);
  EXPECT_TRUE(harness.filtered(harness.make<Filter>(prefill_filter())).empty());
}

TEST(RoleFilter, IgnoresParameters) {
  Harness harness(1);
  for (auto* make : {&decode_filter, &prefill_filter, &encode_filter})
    EXPECT_TRUE(harness.try_make((*make)(), "{x: 1}"));
}

}  // namespace
}  // namespace llmd::plugins
