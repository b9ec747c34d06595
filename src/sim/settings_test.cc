#include "sim/settings.h"

#include "codec/node.h"

#include <gtest/gtest.h>

#include <map>

namespace llmd::sim {
namespace {

using namespace std::chrono_literals;

struct Sources {
  std::map<std::string, std::string> variables;
  std::map<std::string, std::string> files;

  Result<Settings> parse(std::vector<std::string> args) const {
    return parse_settings(args, {[this](const char* name) {
                                   const auto at = variables.find(name);
                                   return at == variables.end() ? std::string() : at->second;
                                 },
                                 [this](const std::string& path) -> Result<std::string> {
                                   const auto at = files.find(path);
                                   if (at == files.end())
                                     return fail(Code::kBadRequest, "cannot read '" + path + "'");
                                   return at->second;
                                 }});
  }
  ServerConfig server(std::vector<std::string> args) const {
    auto settings = parse(std::move(args));
    EXPECT_TRUE(settings) << settings.error().message;
    return settings ? settings->groups.at(0).server : ServerConfig{};
  }
  std::string error(std::vector<std::string> args) const {
    auto settings = parse(std::move(args));
    return settings ? "" : settings.error().message;
  }
};

TEST(Settings, ReadsFlagsInBothForms) {
  const ServerConfig c = Sources{}.server({"--model", "m", "--max-num-seqs=7", "--mode", "echo",
                                           "--time-to-first-token", "1.5s", "--enable-kvcache",
                                           "--served-model-name", "a", "b", "--seed", "-3"});
  EXPECT_EQ(c.model, "m");
  EXPECT_EQ(c.max_num_seqs, 7u);
  EXPECT_EQ(c.mode, Mode::kEcho);
  EXPECT_EQ(c.latency.time_to_first_token, 1500ms);
  EXPECT_TRUE(c.enable_kvcache);
  EXPECT_EQ(c.served_model_name, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(c.display_model(), "a");
  EXPECT_EQ(c.seed, -3);
}

TEST(Settings, CommandLineBeatsEnvironmentBeatsFileBeatsPreset) {
  Sources s;
  s.files["f"] = "model: from-file\nmax-num-seqs: 9\nhash-seed: file\nprefill-overhead: 7\n";
  s.variables = {{"SIM_MODEL", "from-env"}, {"PYTHONHASHSEED", "42"}};
  const ServerConfig c = s.server({"--config", "f", "--preset", "demo", "--hash-seed", "flag"});
  EXPECT_EQ(c.model, "from-env");
  EXPECT_EQ(c.hash_seed, "flag");
  EXPECT_EQ(c.max_num_seqs, 9u);
  EXPECT_EQ(c.latency.prefill_overhead, 7ns);  // an integer counts nanoseconds
  EXPECT_EQ(c.max_model_len, 8192u);
}

TEST(Settings, NamesTheBadFlagAndTheNearestOne) {
  const Sources s;
  EXPECT_EQ(s.error({"--modle", "m"}), "--modle: unknown flag (did you mean '--model'?)");
  EXPECT_EQ(s.error({}), "model: required and not set");
  EXPECT_EQ(s.error({"--model"}), "--model: needs a value");
  EXPECT_EQ(s.error({"--model", "m", "--max-num-seqs", "0"}),
            "--max-num-seqs: 0 is not in [1, 16777216]");
  EXPECT_EQ(s.error({"--model", "m", "--mode", "ecko"}),
            "--mode: 'ecko' is not one of 'random', 'echo' (did you mean 'echo'?)");
  EXPECT_EQ(s.error({"--model", "m", "--block-size", "12"}),
            "--block-size: '12' is not 8, 16, 32, 64 or 128");
  EXPECT_EQ(s.error({"--model", "m", "--failure-types", "rate_limits"}).substr(0, 34),
            "--failure-types: 'rate_limits' is ");
  EXPECT_EQ(s.error({"m"}), "'m': a value without a flag");
}

TEST(Settings, RefusesFeaturesThatAreAbsentUnlessDefault) {
  const Sources s;
  EXPECT_EQ(s.error({"--model", "m", "--event-batch-size", "16", "--omni=false"}), "");
  EXPECT_EQ(s.error({"--model", "m", "--omni"}),
            "--omni: this feature is not simulated; only the default 'false' is accepted, not "
            "'true'");
  EXPECT_EQ(s.error({"--model", "m", "--enforce-eager", "--tensor-parallel-size", "2"}), "");
}

TEST(Settings, ReadsWhereAndHowToPublishKvEvents) {
  const Sources s;
  const std::vector<std::string> on = {"--model", "m", "--enable-kvcache", "--zmq-endpoint"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), on.begin(), on.end());
    return more;
  };
  const KvEventsConfig c =
      s.server(with({"tcp://*:5557", "--use-vllm-map-event-format", "--event-batch-size", "4",
                     "--kv-events-replay-endpoint", "tcp://*:5657", "--kv-events-loss-rate", "7"}))
          .kv_events;
  EXPECT_EQ(c.endpoint, "tcp://*:5557");
  EXPECT_EQ(c.replay_endpoint, "tcp://*:5657");
  EXPECT_EQ(c.format, EventFormat::kMap);
  EXPECT_EQ(c.batch_size, 4u);
  EXPECT_EQ(c.loss_rate, 7u);
  EXPECT_EQ(s.error(with({"udp://a:1"})), "--zmq-endpoint: 'udp://a:1' is not tcp://HOST:PORT");
  EXPECT_EQ(s.error({"--model", "m", "--zmq-endpoint", "tcp://a:1"}),
            "zmq-endpoint: needs enable-kvcache");
  EXPECT_EQ(s.error({"--model", "m", "--kv-events-replay-endpoint", "tcp://a:1"}),
            "kv-events-replay-endpoint: needs zmq-endpoint");
}

TEST(Settings, ChecksKeysAgainstEachOther) {
  const Sources s;
  EXPECT_EQ(s.error({"--model", "m", "--time-to-first-token", "100ms",
                     "--time-to-first-token-std-dev", "40ms"}),
            "time-to-first-token-std-dev: 40ms is more than 30% of time-to-first-token 100ms");
  EXPECT_EQ(s.error({"--model", "m", "--max-loras", "3", "--max-cpu-loras", "2"}),
            "max-cpu-loras: 2 is less than max-loras 3");
  EXPECT_EQ(s.error({"--model", "m", "--lora-modules", R"({"name":"l","base_model_name":"x"})"}),
            "lora-modules: base_model_name 'x' of 'l' is not the model 'm'");
  EXPECT_EQ(s.error({"--model", "m", "--lora-modules", R"({"path":"p"})"}),
            R"(--lora-modules: '{"path":"p"}' has no name)");
}

TEST(Settings, WarnsOfUnknownKeysInTheFile) {
  Sources s;
  s.files["f"] = "model: m\nmax-num-seq: 3\n";
  const auto settings = s.parse({"--config", "f"});
  ASSERT_TRUE(settings);
  EXPECT_EQ(settings->warnings,
            (std::vector<std::string>{"f:2: max-num-seq: unknown key ignored (did you mean "
                                      "'max-num-seqs'?)"}));
}

TEST(Settings, ReadsEndpointGroups) {
  Sources s;
  s.files["f"] =
      "model: m\n"
      "endpoints:\n"
      "- count: 2\n"
      "  name-prefix: prefill\n"
      "  role: prefill\n"
      "  port-base: 9000\n"
      "  overrides: {max-num-seqs: 2, prefill-overhead: 5ms}\n"
      "- count: 2\n"
      "  address-range: 127.0.3.1-127.0.3.9\n"
      "  labels: {zone: a}\n";
  const auto settings = s.parse({"--config", "f", "--seed", "5"});
  ASSERT_TRUE(settings) << settings.error().message;
  const auto plans = plan_endpoints(*settings);
  ASSERT_TRUE(plans) << plans.error().message;
  ASSERT_EQ(plans->size(), 4u);
  EXPECT_EQ((*plans)[1].name, "prefill-1");
  EXPECT_EQ((*plans)[1].port, 9001);
  EXPECT_EQ((*plans)[1].config.max_num_seqs, 2u);
  EXPECT_EQ((*plans)[1].labels, (Labels{{"llm-d.ai/role", "prefill"}}));
  EXPECT_EQ((*plans)[3].name, "sim-1");
  EXPECT_EQ((*plans)[3].address, "127.0.3.2");
  EXPECT_EQ((*plans)[3].port, 8000);
  EXPECT_EQ((*plans)[3].config.max_num_seqs, 5u);
  EXPECT_NE((*plans)[2].config.seed, (*plans)[3].config.seed);
}

TEST(Settings, NamesFileAndLineOfABadOverride) {
  Sources s;
  s.files["f"] = "model: m\nendpoints:\n- count: 1\n  overrides:\n    mode: loud\n";
  EXPECT_EQ(s.error({"--config", "f"}),
            "f:5: overrides: mode: 'loud' is not one of 'random', 'echo'");
}

TEST(Settings, PlansAddressesAndPorts) {
  const Sources s;
  const auto plan = [&](std::vector<std::string> args) {
    args.insert(args.end(), {"--model", "m"});
    auto settings = s.parse(args);
    EXPECT_TRUE(settings) << settings.error().message;
    return plan_endpoints(*settings);
  };
  EXPECT_EQ(plan({"--replicas", "300"})->back().port, 8299);
  EXPECT_EQ(plan({"--replicas", "300", "--port", "0"})->back().port, 0);
  EXPECT_EQ(plan({"--address-range", "127.0.1.0/24"})->size(), 254u);
  EXPECT_EQ(plan({"--address-range", "127.0.1.0/24"})->front().address, "127.0.1.1");
  EXPECT_EQ(plan({"--address-range", "127.0.1.250", "--replicas", "10"})->back().address,
            "127.0.2.3");
  EXPECT_EQ(plan({"--address-range", "127.0.1.1-127.0.1.2", "--replicas", "3"}).error().message,
            "address-range: '127.0.1.1-127.0.1.2' has 2 addresses for 3 servers");
  EXPECT_FALSE(plan({"--replicas", "3", "--port", "65534"}));
  const auto ranks = plan({"--data-parallel-size", "2", "--replicas", "2"});
  EXPECT_EQ(ranks->size(), 4u);
  EXPECT_EQ(ranks->back().port, 8003);
  EXPECT_EQ(ranks->back().config.data_parallel_rank, 1);
}

TEST(Settings, PlansWhereEachServerPublishes) {
  const Sources s;
  using Places = std::vector<std::string>;
  const auto places = [&](std::vector<std::string> args) {
    args.insert(args.end(), {"--model", "m", "--enable-kvcache"});
    auto settings = s.parse(args);
    EXPECT_TRUE(settings) << settings.error().message;
    const auto plans = plan_endpoints(*settings);
    if (!plans) return Places{plans.error().message};
    Places all;
    for (const auto& plan : *plans)
      all.push_back((plan.config.kv_events.bind ? "at " : "to ") + plan.config.kv_events.endpoint);
    return all;
  };
  EXPECT_EQ(
      places({"--replicas", "2", "--data-parallel-size", "2", "--zmq-endpoint", "tcp://*:5557"}),
      (Places{"at tcp://*:5557", "at tcp://*:5558", "at tcp://*:5559", "at tcp://*:5560"}));
  // Who connects goes to the one who listens, whatever server it is of; ranks have ports.
  EXPECT_EQ(
      places({"--replicas", "2", "--data-parallel-size", "2", "--zmq-endpoint", "tcp://epp:5557"}),
      (Places{"to tcp://epp:5557", "to tcp://epp:5558", "to tcp://epp:5557", "to tcp://epp:5558"}));
  EXPECT_EQ(places({"--address-range", "127.0.1.1-127.0.1.2", "--zmq-endpoint", "tcp://*:5557"}),
            (Places{"at tcp://127.0.1.1:5557", "at tcp://127.0.1.2:5557"}));
  EXPECT_EQ(places({"--data-parallel-rank", "3", "--zmq-endpoint", "tcp://*:5557"}),
            Places{"at tcp://*:5560"});
  EXPECT_EQ(places({"--replicas", "2", "--zmq-bind", "--zmq-endpoint", "tcp://127.0.0.1:0"}),
            (Places{"at tcp://127.0.0.1:0", "at tcp://127.0.0.1:0"}));
  EXPECT_EQ(places({"--replicas", "2", "--zmq-endpoint", "tcp://*:65535"}),
            Places{"zmq-endpoint: 'tcp://*:65535': port 65536 is beyond 65535"});
}

TEST(Settings, WritesAnEndpointsFileThatDiscoveryReads) {
  const EndpointPlan plans[] = {
      {"sim-0", "127.0.1.1", 8000, {{"llm-d.ai/role", "decode"}}, {}},
      {"sim-1", "0.0.0.0", 8001, {}, {}},
  };
  const auto root = codec::parse_yaml(endpoints_file(plans), "out");
  ASSERT_TRUE(root) << root.error().message;
  const auto& items = root->find("endpoints")->items;
  ASSERT_EQ(items.size(), 2u);
  EXPECT_EQ(items[0].find("port")->type, codec::Node::Type::kString);
  EXPECT_EQ(items[0].find("port")->text, "8000");
  EXPECT_EQ(items[0].find("labels")->find("llm-d.ai/role")->text, "decode");
  EXPECT_EQ(items[1].find("address")->text, "127.0.0.1");
}

TEST(Settings, NamesServersInTheFileByThePortOfTheirEvents) {
  const Sources s;
  const auto names = [&](std::vector<std::string> args) {
    args.insert(args.end(), {"--model", "m", "--enable-kvcache"});
    std::vector<std::string> out;
    const auto settings = s.parse(args);
    const auto file = codec::parse_yaml(endpoints_file(*plan_endpoints(*settings)), "out");
    for (const auto& item : file->find("endpoints")->items) out.push_back(item.find("name")->text);
    return out;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(names({"--replicas", "3", "--zmq-endpoint", "tcp://*:5557"}),
            (Names{"sim-0", "sim-1-rank-1", "sim-2-rank-2"}));
  EXPECT_EQ(
      names({"--replicas", "2", "--data-parallel-size", "2", "--zmq-endpoint", "tcp://*:5557"}),
      (Names{"sim-0", "sim-1-rank-1", "sim-2-rank-2", "sim-3-rank-3"}));
  EXPECT_EQ(names({"--address-range", "127.0.1.1-127.0.1.2", "--zmq-endpoint", "tcp://*:5557"}),
            (Names{"sim-0", "sim-1"}));
  for (const auto* elsewhere : {"tcp://epp:5557", "tcp://*:0"})
    EXPECT_EQ(names({"--replicas", "2", "--zmq-endpoint", elsewhere}), (Names{"sim-0", "sim-1"}));
  EXPECT_EQ(names({"--replicas", "2"}), (Names{"sim-0", "sim-1"}));
}

TEST(Options, HelpNamesEveryOne) {
  const std::string help = help_text();
  for (const Option& option : options())
    EXPECT_NE(help.find(option.name), help.npos) << option.name;
}

}  // namespace
}  // namespace llmd::sim
