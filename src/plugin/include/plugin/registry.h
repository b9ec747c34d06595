#pragma once

#include "base/clock.h"
#include "base/result.h"
#include "codec/node.h"
#include "metric/registry.h"
#include "plugin/params.h"
#include "plugin/plugin.h"
#include "plugin/state_store.h"

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace llmd::plugin {

enum class Stability : uint8_t { kBeta, kAlpha };

/// What a factory may use besides its parameters. Outlives every plugin.
struct Context {
  std::string_view name;  // of the instance
  StateStore& state;
  metric::Registry& metrics;
  const Clock& clock;
};

/// An instance and the effective values of its parameters, as a JSON object.
struct Made {
  std::unique_ptr<Plugin> plugin;
  std::string parameters;
};

/// Everything known about a plugin type before one is made.
struct Descriptor {
  std::string_view type;
  std::string_view kind;     // "scorer", "filter", …, for docs
  std::string_view summary;  // one sentence, for docs
  Stability stability = Stability::kBeta;
  std::string_view replaced_by;     // non-empty: deprecated, and what to use
  bool ignores_parameters = false;  // the reference accepts anything here
  std::vector<std::string>
      produces_by_default;  // attribute keys for which this type is auto-created (spec 02 §1.6)
  std::vector<ParamInfo> params;
  std::function<Result<Made>(const Context&, const codec::Node* parameters)> make;
};

/// Fills `params` and `make` for a plugin class whose constructor is T(P, const Context&), or which
/// has static Result<std::unique_ptr<T>> create(P, const Context&) when construction can fail. Type
/// and name are stamped after construction; until then the name is in the context.
template <class T, class P>
Descriptor describe(Descriptor base, const Params<P>& table) {
  base.params = table.describe();
  base.make = [table, ignore = base.ignores_parameters](
                  const Context& context, const codec::Node* parameters) -> Result<Made> {
    LLMD_TRY_ASSIGN(P values, table.parse(ignore ? nullptr : parameters));
    Made made{.plugin = nullptr, .parameters = table.print(values)};
    if constexpr (requires { T::create(std::move(values), context); }) {
      LLMD_TRY_ASSIGN(made.plugin, T::create(std::move(values), context));
    } else {
      made.plugin = std::make_unique<T>(std::move(values), context);
    }
    return made;
  };
  return base;
}

/// The same for a plugin without parameters, constructed from (const Context&) or
/// default-constructed.
template <class T>
Descriptor describe(Descriptor base) {
  base.make = [ignore = base.ignores_parameters](const Context& context,
                                                 const codec::Node* parameters) -> Result<Made> {
    LLMD_TRY(values::apply(ignore ? nullptr : parameters, {}, {}));
    if constexpr (std::is_constructible_v<T, const Context&>)
      return Made{.plugin = std::make_unique<T>(context), .parameters = "{}"};
    else
      return Made{.plugin = std::make_unique<T>(), .parameters = "{}"};
  };
  return base;
}

/// The plugin types of a process. The list is explicit: apps/llmd owns it.
/// Threading: immutable after construction.
class Registry {
 public:
  /// Requires: every type once.
  explicit Registry(std::vector<Descriptor> descriptors);

  const Descriptor* find(std::string_view type) const;
  std::span<const Descriptor> descriptors() const { return descriptors_; }
  std::vector<std::string_view> types() const;

  /// Makes an instance and stamps its type and name. Errors name the instance and its type.
  Result<Made> make(const Descriptor& descriptor, const Context& context,
                    const codec::Node* parameters) const;

 private:
  std::vector<Descriptor> descriptors_;
};

}  // namespace llmd::plugin
