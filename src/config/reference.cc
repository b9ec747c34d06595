#include "config/dump.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace llmd::config {
namespace {

using Out = std::back_insert_iterator<std::string>;

constexpr std::string_view kOpening = R"(# Plugins

Every plugin type that a configuration can name, with its parameters. This page is printed by
`llmd check --plugins-reference` from the tables that also parse the parameters; `make docs` writes it.

Parameter names match without regard to case. Unknown names and wrong types are errors. Durations are written as
`"300ms"` or `"1m30s"`. A default of `null` means that the parameter is absent unless given.
)";

/// Cells hold text from the tables, where '|' would end the cell.
std::string cell(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '|') out += '\\';
    out += c;
  }
  return out;
}

void print_rows(Out out, const std::vector<plugin::ParamInfo>& params, const std::string& path) {
  for (const auto& param : params) {
    std::string about = param.doc;
    if (!param.limits.empty()) about += " Limits: " + param.limits + ".";
    if (param.deprecated) about += " Deprecated.";
    const std::string unit = param.unit.empty() ? "" : " (" + param.unit + ")";
    const bool nested = !param.fields.empty();
    fmt::format_to(out, "| `{}` | {}{} | {} | {} |\n", path + param.name, param.type, unit,
                   nested ? "" : "`" + cell(param.default_value) + "`", cell(about));
    const bool list = param.type.starts_with("list");
    print_rows(out, param.fields, path + param.name + (list ? "[]." : "."));
  }
}

void print_plugin(Out out, const plugin::Descriptor& descriptor) {
  fmt::format_to(out, "\n### {}\n\n{}", descriptor.type, descriptor.summary);
  if (descriptor.stability == plugin::Stability::kAlpha)
    fmt::format_to(out, " Experimental: needs `--allow-experimental-plugins`.");
  if (!descriptor.replaced_by.empty())
    fmt::format_to(out, " Deprecated: use {}.", descriptor.replaced_by);
  if (descriptor.ignores_parameters) fmt::format_to(out, " Parameters are accepted and ignored.");
  for (const auto& key : descriptor.produces_by_default)
    fmt::format_to(out, " Created by itself when a plugin needs `{}`.", key);
  fmt::format_to(out, "\n");
  if (descriptor.params.empty()) return;
  fmt::format_to(out, "\n| Parameter | Type | Default | Meaning |\n|---|---|---|---|\n");
  print_rows(out, descriptor.params, "");
}

}  // namespace

std::string plugins_reference(const plugin::Registry& registry) {
  std::string page(kOpening);
  const Out out = std::back_inserter(page);
  std::vector<std::string_view> kinds;  // in the order of the list
  for (const auto& descriptor : registry.descriptors())
    if (std::ranges::find(kinds, descriptor.kind) == kinds.end()) kinds.push_back(descriptor.kind);
  for (const auto kind : kinds) {
    fmt::format_to(out, "\n## Kind: {}\n", kind);
    for (const auto& descriptor : registry.descriptors())
      if (descriptor.kind == kind) print_plugin(out, descriptor);
  }
  return page;
}

}  // namespace llmd::config
