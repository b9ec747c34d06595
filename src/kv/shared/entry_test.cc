#include "kv_shared/entry.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace llmd::kv_shared {
namespace {

// Spec 05 §3.3.
const std::vector<std::pair<Entry, std::string_view>> kVectors = {
    {{.pod = "10.0.0.1:8000", .tier = "gpu"},
     R"({"PodIdentifier":"10.0.0.1:8000","DeviceTier":"gpu","Speculative":false,"HasGroup":false,"GroupIdx":0})"},
    {{.pod = "10.0.0.1:8000", .speculative = true},
     R"({"PodIdentifier":"10.0.0.1:8000","DeviceTier":"","Speculative":true,"HasGroup":false,"GroupIdx":0})"},
    {{.pod = "10.0.0.1:8000", .tier = "cpu", .group = 2},
     R"({"PodIdentifier":"10.0.0.1:8000","DeviceTier":"cpu","Speculative":false,"HasGroup":true,"GroupIdx":2})"},
    {{.pod = "[::1]:8000", .tier = "gpu", .group = 0},
     R"({"PodIdentifier":"[::1]:8000","DeviceTier":"gpu","Speculative":false,"HasGroup":true,"GroupIdx":0})"},
    {{.pod = "p", .tier = "<a>&\"b\\"},
     R"({"PodIdentifier":"p","DeviceTier":"\u003ca\u003e\u0026\"b\\","Speculative":false,"HasGroup":false,"GroupIdx":0})"},
};

TEST(Entry, IsWrittenByteForByte) {
  for (const auto& [entry, field] : kVectors) EXPECT_EQ(encode(entry), field);
}

TEST(Entry, IsReadBack) {
  for (const auto& [entry, field] : kVectors) EXPECT_EQ(decode(field), entry) << field;
}

TEST(Entry, IsReadInAnyOrder) {
  EXPECT_EQ(decode(R"({"New":[1], "DeviceTier":"gpu" , "PodIdentifier":"p"})"),
            (Entry{.pod = "p", .tier = "gpu"}));
}

TEST(Entry, OfOtherBytesIsNone) {
  for (const std::string_view field :
       {"", "x", "[]", "\"p\"", "{", R"({"PodIdentifier":1})",
        R"({"PodIdentifier":"p","HasGroup":1})", R"({"PodIdentifier":"p"} x)",
        "{\"PodIdentifier\":\"\xff\"}"})
    EXPECT_FALSE(decode(field)) << field;
}

}  // namespace
}  // namespace llmd::kv_shared
