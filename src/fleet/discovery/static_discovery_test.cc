#include "fleet/static_discovery.h"

#include <gtest/gtest.h>

#include <map>

namespace llmd::fleet {
namespace {

using Labels = std::vector<std::pair<std::string, std::string>>;

TEST(EndpointFlag, ReadsEveryForm) {
  const struct {
    std::string_view text;
    EndpointSpec spec;
  } kCases[] = {
      {"http://10.0.0.1:8000", {.name = "10.0.0.1:8000", .address = "10.0.0.1", .port = 8000}},
      {"10.0.0.1:8000", {.name = "10.0.0.1:8000", .address = "10.0.0.1", .port = 8000}},
      {"http://10.0.0.1/", {.name = "10.0.0.1:80", .address = "10.0.0.1", .port = 80}},
      {"https://10.0.0.1",
       {.name = "10.0.0.1:443", .address = "10.0.0.1", .port = 443, .scheme = "https"}},
      {"HTTP://vLLM_1:8000", {.name = "vllm_1:8000", .port = 8000, .host_name = "vllm_1"}},
      {"http://[FD00::0:1]:8000", {.name = "[fd00::1]:8000", .address = "fd00::1", .port = 8000}},
      {"http://[::1]", {.name = "[::1]:80", .address = "::1", .port = 80}},
      {"http://a:1;role=decode;model=m=1; x = ",
       {.name = "a:1",
        .port = 1,
        .labels = {{"model", "m=1"}, {"role", "decode"}, {"x", ""}},
        .host_name = "a"}},
  };
  for (const auto& c : kCases) {
    const auto spec = parse_endpoint_flag(c.text);
    ASSERT_TRUE(spec) << spec.error().message;
    EXPECT_EQ(*spec, c.spec) << c.text << " gave " << spec->name;
  }
}

TEST(EndpointFlag, SaysWhatIsWrong) {
  const struct {
    std::string_view text, why;
  } kCases[] = {
      {"", "the host is missing"},
      {"http://", "the host is missing"},
      {"http://:80", "the host is missing"},
      {"htp://a", "scheme must be http or https, not 'htp' (did you mean 'http'?)"},
      {"unix:///tmp/x", "scheme must be http or https, not 'unix'"},
      {"http://a:0", "port must be a number from 1 to 65535, not '0'"},
      {"http://a:70000", "port must be a number from 1 to 65535, not '70000'"},
      {"http://a:", "port must be a number from 1 to 65535, not ''"},
      {"http://a/v1", "a path, query or fragment is not supported"},
      {"http://a?x", "a path, query or fragment is not supported"},
      {"http://u:p@a", "user names and passwords are not supported"},
      {"http://10.0.0.300:80", "'10.0.0.300' is neither an IP address nor a host name"},
      {"http://a b", "'a b' is neither an IP address nor a host name"},
      {"http://fd00::1", "an IPv6 address needs brackets: [fd00::1]"},
      {"http://[fd00::1", "']' is missing after the IPv6 address"},
      {"http://[10.0.0.1]", "'10.0.0.1' is no IPv6 address"},
      {"http://[::1]x", "unexpected 'x' after ']'"},
      {"http://a;role", "label 'role' needs the form name=value"},
      {"http://a;", "label '' needs the form name=value"},
      {"http://a;=x", "label '=x' has no name"},
      {"http://a;r=1;r=2", "label 'r' is given twice"},
  };
  for (const auto& c : kCases) {
    const auto spec = parse_endpoint_flag(c.text);
    ASSERT_FALSE(spec) << c.text;
    EXPECT_EQ(spec.error().message,
              "endpoint '" + std::string(c.text) + "': " + std::string(c.why));
  }
}

TEST(EndpointFlag, RefusesAnEndpointGivenTwice) {
  EXPECT_EQ(parse_endpoint_flags({"http://a", "http://b"})->size(), 2u);
  const auto specs = parse_endpoint_flags({"http://a:80", "a"});
  ASSERT_FALSE(specs);
  EXPECT_EQ(specs.error().message, "endpoint 'a': a:80 is given twice");
}

/// A discovery over a name service that the test writes.
class StaticDiscoveryTest : public testing::Test {
 protected:
  void start(const std::vector<std::string>& flags) {
    discovery_.emplace(
        parse_endpoint_flags(flags).value(),
        [this](const std::string& host) -> Result<std::vector<std::string>> {
          ++look_ups_;
          const auto found = names_.find(host);
          if (found == names_.end())
            return fail(Code::kServiceUnavailable, "host '" + host + "': unknown");
          return found->second;
        },
        clock_);
    ASSERT_TRUE(discovery_->start(fleet_));
  }
  void advance(Nanos d) {
    clock_.advance(d);
    discovery_->tick();
  }
  std::vector<std::string> host_ports() const {
    std::vector<std::string> out;
    const auto snapshot = fleet_.snapshot();
    for (const auto& e : snapshot->endpoints) out.push_back(e->host_port());
    return out;
  }
  using Texts = std::vector<std::string>;

  ManualClock clock_;
  Fleet fleet_;
  std::map<std::string, Texts> names_;
  int look_ups_ = 0;
  std::optional<StaticDiscovery> discovery_;
};

TEST_F(StaticDiscoveryTest, ListsLiteralsAndNeverResolvesThem) {
  start({"http://10.0.0.1:1;role=decode", "http://[::1]:2"});
  advance(StaticDiscovery::kResolveInterval);
  EXPECT_EQ(host_ports(), (Texts{"10.0.0.1:1", "[::1]:2"}));
  EXPECT_EQ(*fleet_.snapshot()->endpoints[0]->label("role"), "decode");
  EXPECT_EQ(look_ups_, 0);
}

TEST_F(StaticDiscoveryTest, ResolvesNamesAgainAfterTheInterval) {
  names_ = {{"a", {"10.0.0.1"}}};
  start({"http://a:80"});
  EXPECT_EQ(host_ports(), (Texts{"10.0.0.1:80"}));
  EXPECT_EQ(fleet_.snapshot()->endpoints[0]->spec().host_name, "a");
  names_["a"] = {"10.0.0.2"};
  advance(StaticDiscovery::kResolveInterval - Nanos(1));
  EXPECT_EQ(host_ports(), (Texts{"10.0.0.1:80"}));
  advance(Nanos(1));
  EXPECT_EQ(host_ports(), (Texts{"10.0.0.2:80"}));
  EXPECT_EQ(look_ups_, 2);
}

TEST_F(StaticDiscoveryTest, KeepsAnAddressThatTheNameStillHas) {
  names_ = {{"a", {"10.0.0.1", "10.0.0.2"}}};
  start({"http://a:80"});
  const auto before = fleet_.snapshot();
  names_["a"] = {"10.0.0.2", "10.0.0.1"};
  advance(StaticDiscovery::kResolveInterval);
  EXPECT_EQ(fleet_.snapshot(), before);
}

TEST_F(StaticDiscoveryTest, KeepsTheLastAddressWhileTheNameFails) {
  names_ = {{"a", {"10.0.0.1"}}};
  start({"http://a:80"});
  names_.clear();
  advance(StaticDiscovery::kResolveInterval);
  EXPECT_EQ(host_ports(), (Texts{"10.0.0.1:80"}));
  names_["a"] = {};
  advance(StaticDiscovery::kRetryInterval);
  EXPECT_EQ(host_ports(), (Texts{"10.0.0.1:80"}));
}

TEST_F(StaticDiscoveryTest, TriesAgainSoonAfterAFailure) {
  start({"http://a:80", "http://10.0.0.9:80"});
  EXPECT_EQ(host_ports(), (Texts{"10.0.0.9:80"}));
  names_["a"] = {"10.0.0.1"};
  advance(StaticDiscovery::kRetryInterval);
  EXPECT_EQ(host_ports(), (Texts{"10.0.0.9:80", "10.0.0.1:80"}));
}

}  // namespace
}  // namespace llmd::fleet
