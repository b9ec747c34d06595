#include "sim/settings.h"

#include "base/file.h"
#include "base/text.h"
#include "codec/node.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>

namespace llmd::sim {
namespace {

constexpr size_t kFileBytesMax = 1 << 20;  // of a configuration

/// Options of the process rather than of a server.
constexpr std::pair<std::string_view, std::string_view> kProcessOptions[] = {
    {"config", "YAML file with any of these keys and a list `endpoints`"},
    {"preset", "defaults of 8b-h100, 70b-h100, 3b-l40s or demo"},
    {"replicas", "servers, on consecutive ports or addresses"},
    {"address-range", "127.0.1.1, 127.0.1.1-127.0.1.200 or 127.0.1.0/24: one server an address"},
    {"endpoints-out", "write an endpoints file for file discovery, once all servers listen"},
    {"time-scale", "model time runs this many times faster than real time"},
    {"loops", "event-loop threads"},
    {"help", "print this text"},
};

/// One occurrence of a key with its values, whatever the source.
struct Setting {
  std::string name;
  std::vector<std::string> values;
  std::string where;  // for messages: "--seed", "sim.yaml:3: seed"
};

std::vector<std::string_view> all_names() {
  std::vector<std::string_view> names;
  for (const Option& o : options()) names.push_back(o.name);
  for (const auto& [name, help] : kProcessOptions) names.push_back(name);
  return names;
}

bool is_process_option(std::string_view name) {
  return std::ranges::any_of(kProcessOptions, [&](const auto& o) { return o.first == name; });
}

std::unexpected<Error> unknown(const std::string& where, std::string_view name) {
  std::string near(nearest_name(name, all_names()));
  if (near.empty()) return fail(Code::kBadRequest, where + ": unknown flag");
  if (where.starts_with("--")) near.insert(0, "--");
  return fail(Code::kBadRequest, fmt::format("{}: unknown flag (did you mean '{}'?)", where, near));
}

Result<std::vector<Setting>> read_flags(std::span<const std::string> args) {
  std::vector<Setting> settings;
  for (size_t i = 0; i < args.size(); ++i) {
    const std::string& arg = args[i];
    size_t dashes = arg.starts_with("--") ? 2 : arg.starts_with("-") ? 1 : 0;
    if (dashes == 0 || arg.size() == dashes)
      return fail(Code::kBadRequest, fmt::format("'{}': a value without a flag", arg));
    const size_t equals = arg.find('=');
    Setting s{arg.substr(dashes, equals == arg.npos ? arg.npos : equals - dashes), {}, {}};
    if (s.name == "h") s.name = "help";
    s.where = "--" + s.name;
    const Option* option = find_option(s.name);
    if (!option && !is_process_option(s.name)) return unknown(s.where, s.name);
    const bool is_switch = (option && option->shape == Option::Shape::kSwitch) || s.name == "help";
    const bool many = option && option->shape == Option::Shape::kMany;
    if (equals != arg.npos) {
      s.values.push_back(arg.substr(equals + 1));
    } else if (is_switch) {
      s.values.push_back("true");
    } else {
      // A value may start with '-' only where it is a number; otherwise it is the next flag.
      while (i + 1 < args.size() && (many || s.values.empty()) &&
             (!args[i + 1].starts_with('-') || parse_double(args[i + 1])))
        s.values.push_back(args[++i]);
      if (s.values.empty())
        return fail(Code::kBadRequest, fmt::format("{}: needs a value", s.where));
    }
    const auto same = std::ranges::find(settings, s.name, &Setting::name);
    if (many && same != settings.end())
      same->values.insert(same->values.end(), s.values.begin(), s.values.end());
    else
      settings.push_back(std::move(s));
  }
  return settings;
}

Result<std::vector<std::string>> node_values(const codec::Node& node, const Option* option) {
  using Type = codec::Node::Type;
  if (node.type == Type::kList) {
    std::vector<std::string> values;
    for (const auto& item : node.items) {
      if (item.type == Type::kList || item.type == Type::kMap)
        return fail(Code::kBadRequest, "list items must be scalars");
      values.push_back(item.text);
    }
    return values;
  }
  if (node.type == Type::kMap) return fail(Code::kBadRequest, "a map is not a value here");
  if (option && option->is_duration && node.type == Type::kInt)
    return std::vector<std::string>{node.text + "ns"};
  return std::vector<std::string>{node.text};
}

Status apply(ServerConfig& config, const Option& option, const Setting& s) {
  if (option.shape != Option::Shape::kMany && s.values.size() != 1)
    return fail(Code::kBadRequest,
                fmt::format("{}: needs one value, has {}", s.where, s.values.size()));
  if (auto set = option.set(config, s.values); !set)
    return fail(std::move(set.error()).in(s.where));
  return {};
}

/// Collects the process's options while server keys go straight into the configuration.
struct Builder {
  Settings settings;
  ServerConfig server;
  uint32_t replicas = 1;
  bool replicas_set = false;
  std::string address_range;
  const codec::Node* endpoints = nullptr;

  Status take(const Setting& s) {
    if (const Option* option = find_option(s.name)) return apply(server, *option, s);
    const std::string& value = s.values.front();
    const auto bad = [&](std::string_view want) {
      return fail(Code::kBadRequest, fmt::format("{}: '{}' is not {}", s.where, value, want));
    };
    if (s.name == "replicas" || s.name == "loops") {
      const auto n = parse_int(value);
      if (!n || *n < 1 || *n > 65535) return bad("an integer in [1, 65535]");
      (s.name == "loops" ? settings.loops : replicas) = static_cast<uint32_t>(*n);
      if (s.name == "replicas") replicas_set = true;
    } else if (s.name == "time-scale") {
      const auto k = parse_double(value);
      if (!k || !(*k > 0 && *k <= 1e6)) return bad("a number in (0, 1000000]");
      settings.time_scale = *k;
    } else if (s.name == "address-range") {
      address_range = value;
    } else if (s.name == "endpoints-out") {
      settings.endpoints_out = value;
    } else if (s.name == "help") {
      settings.help = true;
    }
    return {};
  }

  Status take_file(const codec::Node& root) {
    if (root.is_null()) return {};
    if (root.type != codec::Node::Type::kMap)
      return fail(Code::kBadRequest, fmt::format("{}: must be a map of keys", root.where()));
    for (const auto& [name, node] : root.members) {
      const std::string where = fmt::format("{}: {}", node.where(), name);
      if (name == "endpoints") {
        endpoints = &node;
        continue;
      }
      const Option* option = find_option(name);
      if ((!option && !is_process_option(name)) || name == "config" || name == "help") {
        settings.warnings.push_back(
            fmt::format("{}: unknown key ignored{}", where, suggestion(name, all_names())));
        continue;
      }
      if (node.is_null() || name == "preset") continue;
      auto values = node_values(node, option);
      if (!values) return fail(std::move(values.error()).in(where));
      LLMD_TRY(take({name, std::move(*values), where}));
    }
    return {};
  }

  Status take_group(const codec::Node& node) {
    if (node.type != codec::Node::Type::kMap)
      return fail(Code::kBadRequest,
                  fmt::format("{}: endpoints: an entry must be a map", node.where()));
    EndpointGroup group;
    group.server = server;
    static constexpr std::string_view kKeys[] = {
        "count", "name-prefix", "address-range", "port-base", "role", "labels", "overrides"};
    for (const auto& [key, value] : node.members) {
      const std::string where = fmt::format("{}: endpoints: {}", value.where(), key);
      if (key == "count" || key == "port-base") {
        const auto n = parse_int(value.text);
        if (!n || *n < (key == "count") || *n > 65535)
          return fail(Code::kBadRequest, fmt::format("{}: '{}' is not an integer in [{}, 65535]",
                                                     where, value.text, int(key == "count")));
        if (key == "count")
          group.count = static_cast<uint32_t>(*n);
        else
          group.port_base = static_cast<uint16_t>(*n);
      } else if (key == "name-prefix") {
        group.name_prefix = value.text;
      } else if (key == "address-range") {
        group.address_range = value.text;
      } else if (key == "role") {
        group.labels.emplace_back("llm-d.ai/role", value.text);
      } else if (key == "labels") {
        for (const auto& [label, text] : value.members) group.labels.emplace_back(label, text.text);
      } else if (key == "overrides") {
        for (const auto& [name, override_node] : value.members) {
          const Option* option = find_option(name);
          const std::string at = fmt::format("{}: overrides: {}", override_node.where(), name);
          if (!option) return unknown(at, name);
          auto values = node_values(override_node, option);
          if (!values) return fail(std::move(values.error()).in(at));
          LLMD_TRY(apply(group.server, *option, {name, std::move(*values), at}));
        }
      } else {
        return fail(Code::kBadRequest,
                    fmt::format("{}: unknown key{}", where, suggestion(key, kKeys)));
      }
    }
    settings.groups.push_back(std::move(group));
    return {};
  }
};

const std::string* last_value(const std::vector<Setting>& flags, std::string_view name) {
  const std::string* value = nullptr;
  for (const Setting& s : flags)
    if (s.name == name) value = &s.values.front();
  return value;
}

}  // namespace

Environment process_environment() {
  return {[](const char* name) {
            const char* value = std::getenv(name);
            return std::string(value ? value : "");
          },
          [](const std::string& path) -> Result<std::string> {
            auto text = read_file(path, kFileBytesMax);
            if (!text) return fail(std::move(text).error().in(fmt::format("'{}'", path)));
            return text;
          }};
}

Result<Settings> parse_settings(std::span<const std::string> args, const Environment& environment) {
  LLMD_TRY_ASSIGN(const auto flags, read_flags(args));
  Builder b;
  codec::Node root;
  if (const std::string* path = last_value(flags, "config")) {
    auto text = environment.read(*path);
    if (!text) return fail(std::move(text.error()).in("--config"));
    LLMD_TRY_ASSIGN(root, codec::parse_yaml(*text, *path));
  }
  const std::string* preset = last_value(flags, "preset");
  if (const auto* node = root.find("preset"); node && !preset) preset = &node->text;
  if (preset) {
    if (auto applied = apply_preset(b.server, *preset); !applied)
      return fail(std::move(applied.error()).in("--preset"));
  }
  LLMD_TRY(b.take_file(root));
  if (auto model = environment.variable("SIM_MODEL"); !model.empty()) b.server.model = model;
  if (auto seed = environment.variable("PYTHONHASHSEED"); !seed.empty()) b.server.hash_seed = seed;
  for (const Setting& s : flags) LLMD_TRY(b.take(s));
  if (b.settings.help) return std::move(b.settings);
  if (b.server.seed == 0) b.server.seed = real_clock().wall().time_since_epoch().count();

  if (b.endpoints) {
    if (b.endpoints->type != codec::Node::Type::kList)
      return fail(Code::kBadRequest,
                  fmt::format("{}: endpoints: must be a list", b.endpoints->where()));
    if (b.replicas_set || !b.address_range.empty())
      return fail(Code::kBadRequest, "replicas and address-range: set them in the list endpoints");
    for (const auto& node : b.endpoints->items) LLMD_TRY(b.take_group(node));
  } else {
    EndpointGroup group;
    group.count = b.replicas_set || b.address_range.empty() ? b.replicas : 0;
    group.address_range = b.address_range;
    group.server = b.server;
    b.settings.groups.push_back(std::move(group));
  }
  for (const EndpointGroup& group : b.settings.groups) LLMD_TRY(validate(group.server));
  return std::move(b.settings);
}

std::string help_text() {
  std::string text = "usage: llmd sim --model NAME [FLAGS]\n\nThe process:\n";
  for (const auto& [name, help] : kProcessOptions)
    text += fmt::format("  --{:<36} {}\n", name, help);
  text += "\nEvery server; also keys of the YAML file:\n";
  for (const Option& option : options())
    if (option.show) text += fmt::format("  --{:<36} {}\n", option.name, option.help);
  text += "\nAccepted with their default only, or without effect:\n ";
  size_t column = 1;
  for (const Option& option : options()) {
    if (option.show) continue;
    if (column + option.name.size() + 1 > 98) text += "\n ", column = 1;
    text += fmt::format(" {}", option.name);
    column += option.name.size() + 1;
  }
  return text + "\n";
}

}  // namespace llmd::sim
