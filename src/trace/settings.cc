#include "trace/settings.h"

#include "base/text.h"
#include "http/message.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

namespace llmd::trace {
namespace {

/// "k1=v1,k2=v2" with percent-encoded values. Nothing when any pair is malformed.
std::optional<TextPairs> parse_pairs(std::string_view text) {
  TextPairs pairs;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    const auto pair = trim(text.substr(0, comma));
    text.remove_prefix(std::min(comma + 1, text.size()));
    if (pair.empty()) continue;
    const size_t equals = pair.find('=');
    if (equals == std::string_view::npos || equals == 0) return std::nullopt;
    auto value = http::percent_decode(trim(pair.substr(equals + 1)));
    if (!value) return std::nullopt;
    pairs.emplace_back(trim(pair.substr(0, equals)), std::move(*value));
  }
  return pairs;
}

bool is_token(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, [](unsigned char c) {
    return std::isalnum(c) ||
           std::string_view("!#$%&'*+-.^_`|~").find(static_cast<char>(c)) != std::string_view::npos;
  });
}

/// Reads the variables one after the other into a Settings.
class Reader {
 public:
  explicit Reader(const Environment& environment) : environment_(environment) {}

  /// The value of a variable; unset and empty are the same.
  std::string get(const char* name) const { return environment_(name).value_or(""); }
  /// The first of the two that is set, and its name.
  std::pair<const char*, std::string> either(const char* first, const char* second) const {
    if (auto value = get(first); !value.empty()) return {first, std::move(value)};
    return {second, get(second)};
  }

  Status endpoint(Settings& s) const {
    constexpr const char* kSpecific = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
    auto [name, url] = either(kSpecific, "OTEL_EXPORTER_OTLP_ENDPOINT");
    s.host = "localhost";
    if (url.empty()) return {};
    const auto bad = [&](std::string_view why) {
      return fail(Code::kBadRequest, fmt::format("{}: '{}' {}", name, url, why));
    };
    std::string_view rest = url;
    if (rest.starts_with("https://"))
      s.tls.emplace();
    else if (!rest.starts_with("http://"))
      return bad("is not a URL like http://collector:4318");
    rest.remove_prefix(rest.find("//") + 2);
    const size_t slash = std::min(rest.find('/'), rest.size());
    auto authority = rest.substr(0, slash);
    auto path = std::string(rest.substr(slash));
    if (authority.find('@') != std::string_view::npos)
      return fail(Code::kBadRequest, fmt::format("{}: must not hold credentials", name));
    const size_t colon = authority.rfind(':');
    const size_t bracket = authority.rfind(']');
    if (colon != std::string_view::npos && (bracket == std::string_view::npos || colon > bracket)) {
      const auto port = parse_int(authority.substr(colon + 1));
      if (!port || *port < 1 || *port > 65535) return bad("has no valid port");
      s.port = static_cast<uint16_t>(*port);
      authority = authority.substr(0, colon);
    }
    if (authority.starts_with('[') && authority.ends_with(']'))
      authority = authority.substr(1, authority.size() - 2);
    if (authority.empty()) return bad("names no host");
    s.host = authority;
    // The common variable is a base, the specific one the whole URL.
    if (std::string_view(name) == kSpecific) {
      s.path = path.empty() ? "/" : path;
    } else {
      while (path.ends_with('/')) path.pop_back();
      s.path = path + "/v1/traces";
    }
    return {};
  }

  /// Files for https; read by whoever connects.
  Status certificates(Settings& s) const {
    if (!s.tls) return {};
    const auto file = [this](const char* specific, const char* common) {
      return either(specific, common).second;
    };
    s.tls->ca_file =
        file("OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", "OTEL_EXPORTER_OTLP_CERTIFICATE");
    s.tls->certificate_file = file("OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE",
                                   "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE");
    s.tls->key_file = file("OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY", "OTEL_EXPORTER_OTLP_CLIENT_KEY");
    if (s.tls->certificate_file.empty() != s.tls->key_file.empty())
      return fail(Code::kBadRequest,
                  "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE and OTEL_EXPORTER_OTLP_CLIENT_KEY go "
                  "together");
    return {};
  }

  Status headers(Settings& s) const {
    auto [name, text] = either("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS");
    auto pairs = parse_pairs(text);
    const bool sound = pairs && std::ranges::all_of(*pairs, [](const auto& pair) {
                         return is_token(pair.first) && pair.second.find_first_of(std::string_view(
                                                            "\r\n\0", 3)) == std::string::npos;
                       });
    if (!sound)
      return fail(Code::kBadRequest, fmt::format("{}: must be like name=value,name=value", name));
    s.headers = std::move(*pairs);
    return {};
  }

  Status number(const char* name, std::string_view text, int64_t& value) const {
    if (text.empty()) return {};
    const auto parsed = parse_int(text);
    if (!parsed || *parsed < 1)
      return fail(Code::kBadRequest,
                  fmt::format("{}: '{}' is not a positive whole number", name, text));
    value = *parsed;
    return {};
  }

  Status limits(Settings& s) const {
    int64_t timeout = 10'000, delay = 5'000, batch = 512, queue = 2048;
    const auto [name, text] =
        either("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT");
    LLMD_TRY(number(name, text, timeout));
    const auto read = [&](const char* variable, int64_t& value) {
      return number(variable, get(variable), value);
    };
    LLMD_TRY(read("OTEL_BSP_SCHEDULE_DELAY", delay));
    LLMD_TRY(read("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", batch));
    LLMD_TRY(read("OTEL_BSP_MAX_QUEUE_SIZE", queue));
    constexpr int64_t kMillisMax = 3'600'000;
    constexpr int64_t kSpansMax = 1 << 20;
    s.timeout = std::chrono::milliseconds(std::min(timeout, kMillisMax));
    s.interval = std::chrono::milliseconds(std::min(delay, kMillisMax));
    s.queue_max = static_cast<size_t>(std::min(queue, kSpansMax));
    s.batch_max = std::min(static_cast<size_t>(std::min(batch, kSpansMax)), s.queue_max);
    return {};
  }

  /// Anything but the one sampler counts as it, with its default argument.
  void sampler(Settings& s) const {
    const auto name = get("OTEL_TRACES_SAMPLER");
    const auto text = get("OTEL_TRACES_SAMPLER_ARG");
    if (!name.empty() && name != "parentbased_traceidratio") {
      s.warnings.push_back(fmt::format(
          "OTEL_TRACES_SAMPLER: '{}' is not supported; parentbased_traceidratio with 0.1 is used",
          name));
      return;
    }
    if (text.empty()) return;
    const auto ratio = parse_double(text);
    if (ratio && *ratio >= 0 && *ratio <= 1)
      s.ratio = *ratio;
    else
      s.warnings.push_back(fmt::format(
          "OTEL_TRACES_SAMPLER_ARG: '{}' is not a number from 0 to 1; 0.1 is used", text));
  }

  void resource(Settings& s, std::string_view service, std::string_view version) const {
    auto attributes = parse_pairs(get("OTEL_RESOURCE_ATTRIBUTES"));
    if (!attributes) {
      s.warnings.emplace_back("OTEL_RESOURCE_ATTRIBUTES: is malformed and left out");
      attributes.emplace();
    }
    const auto put = [&](std::string_view key, std::string_view value, bool wins) {
      const auto found = std::ranges::find(*attributes, key, &TextPairs::value_type::first);
      if (found == attributes->end())
        attributes->emplace_back(key, value);
      else if (wins)
        found->second = value;
    };
    const auto named = get("OTEL_SERVICE_NAME");
    put("service.name", named.empty() ? service : std::string_view(named), !named.empty());
    put("service.version", version, false);
    s.attributes = std::move(*attributes);
  }

 private:
  const Environment& environment_;
};

}  // namespace

Environment process_environment() {
  return [](const char* name) -> std::optional<std::string> {
    const char* value = std::getenv(name);
    return value ? std::optional<std::string>(value) : std::nullopt;
  };
}

Result<std::optional<Settings>> read_settings(const Environment& environment,
                                              std::string_view service, std::string_view version) {
  const Reader reader(environment);
  if (reader.get("OTEL_SDK_DISABLED") == "true") return std::nullopt;
  const auto exporter = reader.get("OTEL_TRACES_EXPORTER");
  if (exporter == "none") return std::nullopt;
  if (!exporter.empty() && exporter != "otlp")
    return fail(
        Code::kBadRequest,
        fmt::format("OTEL_TRACES_EXPORTER: '{}' is not available; use otlp or none", exporter));
  const bool endpoint_named =
      !reader.either("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
           .second.empty();
  if (exporter.empty() && !endpoint_named) return std::nullopt;

  Settings s;
  LLMD_TRY(reader.endpoint(s));
  LLMD_TRY(reader.certificates(s));
  LLMD_TRY(reader.headers(s));
  LLMD_TRY(reader.limits(s));
  reader.sampler(s);
  reader.resource(s, service, version);
  const auto [name, protocol] =
      reader.either("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL");
  if (!protocol.empty() && protocol != "http/protobuf")
    s.warnings.push_back(
        fmt::format("{}: '{}' is not available; http/protobuf is used", name, protocol));
  if (s.port == 4317)
    s.warnings.emplace_back(
        "traces are sent as OTLP over HTTP, but 4317 is the usual port for gRPC; 4318 is HTTP's");
  return s;
}

}  // namespace llmd::trace
