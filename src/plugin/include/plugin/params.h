#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "codec/node.h"

/// Parameters are declared once, in a table beside the plugin: strict parsing, the dump of effective values and the reference
/// page in docs/ all come from it. Defaults are the member initialisers of the parameter struct.
///
///   struct Params { int64_t threshold = 128; std::string producer = "approx-prefix-cache-producer"; };
///   const plugin::Params<Params> kParams = {
///       plugin::field("threshold", &Params::threshold, "requests", "Queue depth at which the score reaches 0."),
///       plugin::field("prefixMatchInfoProducerName", &Params::producer, "", "…"),
///   };
namespace llmd::plugin {

/// A parameter as docs and dumps show it.
struct ParamInfo {
  std::string name;
  std::string type;           // "int", "float", "bool", "string", "duration", "list of string", "map", "object"
  std::string default_value;  // as JSON
  std::string unit;
  std::string limits;         // for people: ">= 0"
  std::string doc;
  bool deprecated = false;
};

/// One parameter of P: how to set it from a document and how to print it. Made by field().
template <class P>
struct Param {
  ParamInfo info;
  std::function<Status(P&, const codec::Node&)> set;      // errors without file and line; Params adds them
  std::function<std::string(const P&)> print;             // as JSON

  /// Bounds for numbers; error text names value and limit.
  Param min(double lowest) &&;
  Param max(double highest) &&;
  Param positive() &&;
  /// The only values a string may have; a wrong one is answered with the nearest.
  Param one_of(std::vector<std::string_view> values) &&;
  Param deprecated() &&;
};

template <class P, class T>
Param<P> field(std::string_view name, T P::*member, std::string_view unit, std::string_view doc);

/// The table. parse() starts from P{} and applies `node` (null or a map): field names match without case, unknown
/// names, wrong types and out-of-range values are errors that name file, line, field, value and the nearest valid name.
template <class P>
class Params {
 public:
  Params() = default;
  Params(std::initializer_list<Param<P>> params);

  Result<P> parse(const codec::Node* node) const;
  std::vector<ParamInfo> describe() const;
  /// Effective values as a JSON object, in declaration order.
  std::string print(const P& values) const;

 private:
  std::vector<Param<P>> params_;
};

}  // namespace llmd::plugin
