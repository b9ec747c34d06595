#include "base/log.h"
#include "codec/cel.h"
#include "plugin/registry.h"
#include "schedule/interfaces.h"

#include <array>
#include <optional>

namespace llmd::plugins {
namespace {

using codec::Cel;
using codec::CelValue;

struct Key {
  std::string space = "envoy.lb";
  std::string name;
};
struct Attribute {
  Key key;
  std::string expression;
  std::string condition;
};
struct Params {
  std::vector<Attribute> attributes;
};

const plugin::Params<Key>& key_table() {
  static const plugin::Params<Key> params = {
      plugin::field("namespace", &Key::space, "", "Namespace of the metadata."),
      plugin::field("name", &Key::name, "", "Name within the namespace."),
  };
  return params;
}

const plugin::Params<Attribute>& attribute_table() {
  static const plugin::Params<Attribute> params = {
      plugin::object_field("key", &Attribute::key, key_table(), "Where the number is put."),
      plugin::field("expression", &Attribute::expression, "",
                    "The number, in the subset of CEL that docs/epp.md describes, over `usage`: "
                    "prompt_tokens, completion_tokens, total_tokens, and "
                    "prompt_tokens_details.cached_tokens where the server tells it; all are "
                    "doubles."),
      plugin::field("condition", &Attribute::condition, "",
                    "Expression that must be true for the number to be reported; none: it always "
                    "is."),
  };
  return params;
}

const plugin::Params<Params>& table() {
  static const plugin::Params<Params> params = {
      plugin::list_field("attributes", &Params::attributes, attribute_table(),
                         "What is reported: exactly one."),
  };
  return params;
}

/// `usage.prompt_tokens_details`.
class Details final : public codec::CelMap {
 public:
  explicit Details(double cached) : cached_(cached) {}
  std::optional<CelValue> find(std::string_view key) const override {
    return key == "cached_tokens" ? std::optional<CelValue>(cached_) : std::nullopt;
  }
  size_t size() const override { return 1; }

 private:
  double cached_;
};

/// `usage`.
class Usage final : public codec::CelMap {
 public:
  explicit Usage(const request::Usage& usage)
      : usage_(usage), details_(static_cast<double>(usage.cached_tokens.value_or(0))) {}
  std::optional<CelValue> find(std::string_view key) const override {
    if (key == "prompt_tokens") return static_cast<double>(usage_.prompt_tokens);
    if (key == "completion_tokens") return static_cast<double>(usage_.completion_tokens);
    if (key == "total_tokens") return static_cast<double>(usage_.total_tokens);
    if (key == "prompt_tokens_details" && usage_.cached_tokens)
      return static_cast<const CelMap*>(&details_);
    return std::nullopt;
  }
  size_t size() const override { return usage_.cached_tokens ? 4 : 3; }

 private:
  const request::Usage& usage_;
  const Details details_;
};

/// The whole part of a number; nothing for other values and for numbers beyond an int64.
std::optional<int64_t> whole_part(const CelValue& value) {
  if (const auto* i = std::get_if<int64_t>(&value)) return *i;
  const auto* d = std::get_if<double>(&value);
  if (!d || !(*d >= -0x1p63 && *d < 0x1p63)) return std::nullopt;
  return static_cast<int64_t>(*d);
}

class RequestAttributeReporter final : public schedule::Reporter {
 public:
  static Result<std::unique_ptr<RequestAttributeReporter>> create(Params p,
                                                                  const plugin::Context&) {
    if (p.attributes.size() != 1)
      return fail(Code::kBadRequest, "parameter 'attributes' must have exactly one element, not " +
                                         std::to_string(p.attributes.size()));
    auto& attribute = p.attributes[0];
    if (attribute.key.name.empty())
      return fail(Code::kBadRequest, "parameter 'attributes[0].key.name' is missing");
    if (attribute.key.space.empty())
      return fail(Code::kBadRequest, "parameter 'attributes[0].key.namespace' must not be empty");
    LLMD_TRY_ASSIGN(auto expression, compile(attribute.expression, "expression"));
    std::optional<Cel> condition;
    if (!attribute.condition.empty()) {
      LLMD_TRY_ASSIGN(condition, compile(attribute.condition, "condition"));
    }
    return std::make_unique<RequestAttributeReporter>(std::move(attribute.key),
                                                      std::move(expression), std::move(condition));
  }

  RequestAttributeReporter(Key key, Cel expression, std::optional<Cel> condition)
      : key_(std::move(key)),
        expression_(std::move(expression)),
        condition_(std::move(condition)) {}

  void report(schedule::RequestContext& context, const request::Usage& usage) const override {
    const Usage map(usage);
    const std::array<CelValue, 1> variables = {static_cast<const codec::CelMap*>(&map)};
    if (condition_) {
      const auto met = condition_->evaluate(variables, context.arena);
      if (!met) return note(context, "condition", met.error());
      if (*met != CelValue(true)) return;
    }
    const auto value = expression_.evaluate(variables, context.arena);
    if (!value) return note(context, "expression", value.error());
    const auto number = whole_part(*value);
    if (!number || *number == 0 || *number == -1) return;
    context.reports.push_back({key_.space, key_.name, static_cast<double>(*number)});
  }

 private:
  static Result<Cel> compile(const std::string& text, const std::string& parameter) {
    constexpr std::string_view kVariables[] = {"usage"};
    const std::string where = "parameter 'attributes[0]." + parameter + "'";
    if (text.empty()) return fail(Code::kBadRequest, where + " is missing");
    auto compiled = Cel::compile(text, kVariables);
    if (!compiled) return fail(std::move(compiled).error().in(where));
    return compiled;
  }

  void note(const schedule::RequestContext& context, std::string_view what,
            const codec::CelFault& fault) const {
    log::debug("an attribute of the request has no value", {{"plugin", name()},
                                                            {"x-request-id", context.request_id},
                                                            {"parameter", what},
                                                            {"error", fault.text()}});
  }

  const Key key_;
  const Cel expression_;
  const std::optional<Cel> condition_;
};

}  // namespace

const plugin::Descriptor& request_attribute_reporter() {
  static const auto descriptor = plugin::describe<RequestAttributeReporter>(
      {.type = "request-attribute-reporter",
       .kind = "reporter",
       .summary = "Tells the proxy in front a number computed from the tokens of an answer, as "
                  "dynamic metadata at its end: whole, and not when it is 0 or -1. Has no effect "
                  "in llmd router, which has no proxy in front."},
      table());
  return descriptor;
}

}  // namespace llmd::plugins
