#include "fleet/endpoints_file.h"

#include <gtest/gtest.h>

namespace llmd::fleet {
namespace {

using Labels = std::vector<std::pair<std::string, std::string>>;

TEST(EndpointsFile, ReadsYaml) {
  const auto file = parse_endpoints_file(R"(
endpoints:
  - name: a
    address: 10.0.0.1
    port: "8000"
    labels: {role: decode, engine: vllm}
  - name: b
    namespace: prod
    address: 10.0.0.2
    port: "+080"
)",
                                         "f.yaml");
  ASSERT_TRUE(file) << file.error().message;
  ASSERT_EQ(file->endpoints.size(), 2u);
  EXPECT_EQ(file->endpoints[0], (EndpointSpec{.name = "a",
                                              .address = "10.0.0.1",
                                              .port = 8000,
                                              .labels = {{"engine", "vllm"}, {"role", "decode"}}}));
  EXPECT_EQ(file->endpoints[1],
            (EndpointSpec{.name = "b", .ns = "prod", .address = "10.0.0.2", .port = 80}));
  EXPECT_TRUE(file->bad.empty());
  EXPECT_TRUE(file->warnings.empty());
}

TEST(EndpointsFile, ReadsHowAnEndpointIsReached) {
  const auto file = parse_endpoints_file(
      "endpoints:\n- {name: a, address: 10.0.0.1, port: '1', scheme: https, serverName: a.test}",
      "f");
  ASSERT_TRUE(file) << file.error().message;
  ASSERT_EQ(file->endpoints.size(), 1u);
  EXPECT_EQ(file->endpoints[0].scheme, "https");
  EXPECT_EQ(file->endpoints[0].server_name, "a.test");
}

TEST(EndpointsFile, ReadsJson) {
  const auto file = parse_endpoints_file(
      R"({"endpoints": [{"name": "a", "address": "10.0.0.1", "port": "1", "labels": null}]})",
      "f.json");
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->endpoints.size(), 1u);
}

TEST(EndpointsFile, AllowsAnEmptyList) {
  const auto file = parse_endpoints_file("endpoints: []", "f");
  ASSERT_TRUE(file);
  EXPECT_TRUE(file->endpoints.empty());
}

TEST(EndpointsFile, FailsAsAWholeOnWrongSyntaxAndTypes) {
  const struct {
    std::string_view text, error;
  } kCases[] = {
      {"", "f:1: 'the document' must be a map with the key 'endpoints', found null"},
      {"{}", "f:1: 'endpoints' is missing"},
      {"endpoint: []", "f:1: 'endpoints' is missing"},
      {"endpoints:", "f:1: 'endpoints' must be a list, found null"},
      {"endpoints:\n- a", "f:2: 'endpoints[]' must be a map, found string"},
      {"endpoints:\n- {name: a, address: 10.0.0.1, port: 8000}",
       "f:2: 'port' must be a string: \"8000\""},
      {"endpoints:\n- {name: 5}", "f:2: 'name' must be a string, found int"},
      {"endpoints:\n- {labels: [a]}", "f:2: 'labels' must be a map of strings, found list"},
      {"endpoints:\n- {labels: {a: true}}", "f:2: 'labels.a' must be a string, found bool"},
  };
  for (const auto& c : kCases) {
    const auto file = parse_endpoints_file(c.text, "f");
    ASSERT_FALSE(file) << c.text;
    EXPECT_EQ(file.error().message, c.error);
  }
  EXPECT_FALSE(parse_endpoints_file("endpoints: [", "f"));
  EXPECT_FALSE(
      parse_endpoints_file("endpoints: []\n#" + std::string(kEndpointsFileBytesMax, 'x'), "f"));
}

TEST(EndpointsFile, SetsBadEntriesAside) {
  const struct {
    std::string_view entry, id, error;
  } kCases[] = {
      {"{address: 10.0.0.1, port: '1'}", "", "'name' is missing"},
      {"{name: '', address: 10.0.0.1, port: '1'}", "", "'name' is missing"},
      {"{name: b, port: '1'}", "default/b", "'address' is missing"},
      {"{name: b, address: a.example, port: '1'}", "default/b",
       "'address' must be an IPv4 address, not 'a.example'"},
      {"{name: b, address: '::1', port: '1'}", "default/b",
       "'address' must be an IPv4 address, not '::1'"},
      {"{name: b, namespace: n, address: 10.0.0.1}", "n/b", "'port' is missing"},
      {"{name: b, address: 10.0.0.1, port: '1', scheme: htps}", "default/b",
       "'scheme' must be http or https, not 'htps' (did you mean 'https'?)"},
      {"{name: b, address: 10.0.0.1, port: '1', serverName: '*.a'}", "default/b",
       "'serverName' must be a host name or an IP address, not '*.a'"},
      {"{name: b, address: 10.0.0.1, port: '0'}", "default/b",
       "'port' must be \"1\" to \"65535\", not \"0\""},
      {"{name: b, address: 10.0.0.1, port: '65536'}", "default/b",
       "'port' must be \"1\" to \"65535\", not \"65536\""},
  };
  for (const auto& c : kCases) {
    const auto file = parse_endpoints_file(
        "endpoints:\n- {name: ok, address: 10.0.0.9, port: '9'}\n- " + std::string(c.entry), "f");
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_EQ(file->endpoints.size(), 1u);
    ASSERT_EQ(file->bad.size(), 1u) << c.entry;
    EXPECT_EQ(file->bad[0].id, c.id);
    EXPECT_EQ(file->bad[0].error, "f:3: " + std::string(c.error));
  }
}

TEST(EndpointsFile, WarnsAboutUnknownKeys) {
  const auto file = parse_endpoints_file(
      "version: 1\nendpoints:\n- {name: a, adress: x, address: 10.0.0.1, port: '1'}", "f");
  ASSERT_TRUE(file);
  EXPECT_EQ(file->endpoints.size(), 1u);
  EXPECT_EQ(file->warnings, (std::vector<std::string>{
                                "f:1: unknown key 'version' is ignored",
                                "f:3: unknown key 'adress' is ignored (did you mean 'address'?)"}));
}

}  // namespace
}  // namespace llmd::fleet
