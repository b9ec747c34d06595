#pragma once

#include "base/clock.h"
#include "base/result.h"
#include "codec/node.h"
#include "plugin/param_values.h"

#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

/// Parameters are declared once, in a table beside the plugin: strict parsing, the dump of
/// effective values and the reference page in docs/ all come from it. Defaults are the member
/// initialisers of the parameter struct.
///
///   struct Params {
///     int64_t threshold = 128;
///     std::string producer = "approx-prefix-cache-producer";
///   };
///   const plugin::Params<Params> kParams = {
///       plugin::field("threshold", &Params::threshold, "requests", "Depth with score 0.").min(1),
///       plugin::field("prefixMatchInfoProducerName", &Params::producer, "", "…"),
///   };
namespace llmd::plugin {

/// A parameter as docs and dumps show it.
struct ParamInfo {
  std::string name;
  std::string
      type;  // "int", "float", "bool", "string", "duration", "list of string", "map", "object"
  std::string default_value;  // as JSON
  std::string unit;
  std::string limits;  // for people: ">= 0"
  std::string doc;
  bool deprecated = false;
  std::vector<ParamInfo> fields;  // of an object, or of the objects of a list
};

/// One parameter of P: how to set it from a document and how to print it. Made by field(),
/// object_field() and list_field().
template <class P>
struct Param {
  ParamInfo info;
  /// Errors without file and line; Params adds them. Only those of nested tables come with them.
  std::function<Status(P&, const codec::Node&)> set;
  std::function<std::string(const P&)> print;  // as JSON

  /// Bounds, inclusive: numbers by value, durations in seconds, lists for each of their items.
  Param min(double lowest) && { return std::move(*this).check(values::at_least(lowest)); }
  Param max(double highest) && { return std::move(*this).check(values::at_most(highest)); }
  Param positive() && { return std::move(*this).check(values::above_zero()); }
  /// The only values a string may have; a wrong one is answered with the nearest.
  Param one_of(std::vector<std::string_view> values) && {
    return std::move(*this).check(values::among(std::move(values)));
  }
  /// Still honoured; the loader warns when it is set.
  Param deprecated() && {
    info.deprecated = true;
    return std::move(*this);
  }
  /// Any other rule on the document's value; `limits` describes it in the docs.
  Param check(values::Rule rule) && {
    if (!info.limits.empty()) info.limits += ", ";
    info.limits += rule.limits;
    set = [inner = std::move(set), test = std::move(rule.test)](P& p,
                                                                const codec::Node& n) -> Status {
      LLMD_TRY(inner(p, n));
      return values::each_item(n, test);
    };
    return std::move(*this);
  }
};

/// A parameter of type bool, any integer, double, std::string, Nanos (a Go duration string),
/// std::vector<std::string>, std::map<std::string, std::string>, or std::optional of those (empty:
/// not given).
template <class P, class T>
Param<P> field(std::string_view name, T P::* member, std::string_view unit, std::string_view doc) {
  Param<P> param;
  param.set = [member](P& p, const codec::Node& n) { return values::read(n, p.*member); };
  param.print = [member](const P& p) { return values::to_json(p.*member); };
  param.info = {.name = std::string(name),
                .type = std::string(values::type_of<T>()),
                .default_value = param.print(P{}),
                .unit = std::string(unit),
                .limits = {},
                .doc = std::string(doc),
                .deprecated = false,
                .fields = {}};
  return param;
}

/// The table. parse() starts from P{} and applies `node` (null or a map): field names match without
/// case, a null value leaves the default; unknown names, names given twice, wrong types and
/// out-of-range values are errors that name file, line, field, value and the nearest valid name.
template <class P>
class Params {
 public:
  /// Moves the values of deprecated parameters into those that replaced them, and sets them back.
  using Fold = std::function<Status(P&)>;

  Params() = default;
  Params(std::initializer_list<Param<P>> params, Fold fold = {})
      : params_(params), fold_(std::move(fold)) {}
  /// With those that come first; see lifted().
  Params(std::vector<Param<P>> first, std::initializer_list<Param<P>> params)
      : params_(std::move(first)) {
    params_.insert(params_.end(), params);
  }

  Result<P> parse(const codec::Node* node) const {
    P values{};
    LLMD_TRY(apply(values, node));
    if (fold_) LLMD_TRY(fold_(values));
    return values;
  }
  /// The same on top of the given values.
  Status apply(P& values, const codec::Node* node) const {
    std::vector<std::string_view> names;
    names.reserve(params_.size());
    for (const auto& param : params_) names.push_back(param.info.name);
    return values::apply(node, names, [&](size_t i, const codec::Node& value) {
      return params_[i].set(values, value);
    });
  }
  std::vector<ParamInfo> describe() const {
    std::vector<ParamInfo> infos;
    infos.reserve(params_.size());
    for (const auto& param : params_) infos.push_back(param.info);
    return infos;
  }
  /// Effective values as a JSON object, in declaration order. Deprecated parameters are left out
  /// unless they still say something.
  std::string print(const P& values) const {
    std::string out = "{";
    for (const auto& param : params_) {
      const std::string value = param.print(values);
      if (param.info.deprecated && value == param.info.default_value) continue;
      values::append_member(out, param.info.name, value);
    }
    return out + "}";
  }

  std::span<const Param<P>> params() const { return params_; }

 private:
  std::vector<Param<P>> params_;
  Fold fold_;
};

/// The parameters of a member's table as parameters of P itself: side by side with its others. The
/// table's fold is not taken over.
template <class P, class N>
std::vector<Param<P>> lifted(N P::* member, const Params<N>& table) {
  std::vector<Param<P>> params;
  for (const auto& inner : table.params())
    params.push_back(
        {.info = inner.info,
         .set = [set = inner.set, member](P& p, const codec::Node& n) { return set(p.*member, n); },
         .print = [print = inner.print, member](const P& p) { return print(p.*member); }});
  return params;
}

/// What docs and dumps say of a parameter whose values have a table of their own.
template <class P, class N>
ParamInfo nested_info(std::string_view name, std::string_view type, const Params<N>& table,
                      const Param<P>& param, std::string_view doc) {
  return {.name = std::string(name),
          .type = std::string(type),
          .default_value = param.print(P{}),
          .unit = {},
          .limits = {},
          .doc = std::string(doc),
          .deprecated = false,
          .fields = table.describe()};
}

/// A nested object with a table of its own. M is N, whose defaults are those of P's member, or
/// std::optional<N>, absent unless given.
template <class P, class M, class N>
Param<P> object_field(std::string_view name, M P::* member, const Params<N>& table,
                      std::string_view doc) {
  constexpr bool kPlain = std::is_same_v<M, N>;
  static_assert(kPlain || std::is_same_v<M, std::optional<N>>);
  Param<P> param;
  param.set = [member, table, name = std::string(name)](P& p, const codec::Node& n) -> Status {
    N* object = nullptr;
    if constexpr (kPlain)
      object = &(p.*member);
    else
      object = &(p.*member).emplace();
    return values::in_object(table.apply(*object, &n), n, name + ".");
  };
  param.print = [member, table](const P& p) -> std::string {
    if constexpr (kPlain)
      return table.print(p.*member);
    else
      return p.*member ? table.print(*(p.*member)) : "null";
  };
  param.info = nested_info(name, "object", table, param, doc);
  return param;
}

/// A list of objects. A given list replaces the default one.
template <class P, class N>
Param<P> list_field(std::string_view name, std::vector<N> P::* member, const Params<N>& table,
                    std::string_view doc) {
  Param<P> param;
  param.set = [member, table, name = std::string(name)](P& p, const codec::Node& n) -> Status {
    LLMD_TRY(values::expect(n, codec::Node::Type::kList));
    (p.*member).clear();
    for (size_t i = 0; i < n.items.size(); ++i)
      LLMD_TRY(values::in_object(table.apply((p.*member).emplace_back(), &n.items[i]), n.items[i],
                                 name + "[" + std::to_string(i) + "]."));
    return {};
  };
  param.print = [member, table](const P& p) {
    std::string out = "[";
    for (const auto& item : p.*member) values::append_item(out, table.print(item));
    return out + "]";
  };
  param.info = nested_info(name, "list of object", table, param, doc);
  return param;
}

}  // namespace llmd::plugin
