#include "config/objects_dir.h"

#include "decode.h"

#include "base/log.h"
#include "base/text.h"
#include "config/document.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>

namespace llmd::config {
namespace {

using codec::Node;

constexpr std::string_view kApiVersions[] = {"llm-d.ai/v1alpha2",
                                             "inference.networking.x-k8s.io/v1alpha2"};
constexpr std::string_view kObjective = "InferenceObjective";
constexpr std::string_view kRewrite = "InferenceModelRewrite";
constexpr std::string_view kKinds[] = {kObjective, kRewrite};
constexpr int64_t kWeightMax = 1'000'000;

Status ignore(const Node&, const std::string&) {
  return {};
}

/// Whether it has the form 2026-01-02T03:04:05Z, in which older is smaller.
bool is_timestamp(std::string_view text) {
  constexpr std::string_view kForm = "0000-00-00T00:00:00Z";
  return std::ranges::equal(text, kForm, [](char c, char form) {
    return form == '0' ? c >= '0' && c <= '9' : c == form;
  });
}

/// Only these members matter; a cluster adds many more.
struct Metadata {
  std::string name, created;
};
Read metadata_into(Metadata& metadata) {
  return [&metadata](const Node& node, const std::string& path) -> Status {
    if (node.type != Node::Type::kMap)
      return error_at(node, path, "must be a map, not a " + std::string(type_name(node.type)));
    for (const auto& [member, target] :
         {std::pair("name", &metadata.name), std::pair("creationTimestamp", &metadata.created)})
      if (const Node* value = node.find(member); value && !value->is_null())
        LLMD_TRY(into(*target)(*value, path + "." + member));
    if (!metadata.created.empty() && !is_timestamp(metadata.created))
      return error_at(*node.find("creationTimestamp"), path + ".creationTimestamp",
                      "'" + metadata.created + "' must have the form 2026-01-02T03:04:05Z");
    return {};
  };
}

Read pool_into(std::string& pool) {
  return [&pool](const Node& node, const std::string& path) {
    return decode(node, path, {{"name", into(pool)}, {"group", ignore}, {"kind", ignore}});
  };
}

Status read_match(const Node& node, const std::string& path, request::RewriteRule& rule) {
  bool named = false;
  std::string value, type = "Exact";
  LLMD_TRY(decode(node, path, {{"model", [&](const Node& model, const std::string& at) {
                                  named = true;
                                  return decode(model, at,
                                                {{"type", into(type)}, {"value", into(value)}});
                                }}}));
  if (!named) return {};  // matches nothing
  if (type != "Exact") return error_at(node, path + ".model.type", "must be Exact");
  if (value.empty()) return error_at(node, path + ".model.value", "must not be empty");
  rule.models.push_back(std::move(value));
  return {};
}

Status read_target(const Node& node, const std::string& path, request::RewriteRule& rule) {
  request::ModelTarget target;
  LLMD_TRY(
      decode(node, path, {{"modelRewrite", into(target.model)}, {"weight", into(target.weight)}}));
  if (target.weight && (*target.weight < 1 || *target.weight > kWeightMax))
    return error_at(*node.find("weight"), path + ".weight",
                    fmt::format("must be 1 to {}", kWeightMax));
  if (target.model.empty()) return error_at(node, path + ".modelRewrite", "must not be empty");
  rule.targets.push_back(std::move(target));
  return {};
}

Status read_rule(const Node& node, const std::string& path, request::ModelRewrite& rewrite) {
  request::RewriteRule rule;
  size_t matches = 0;
  LLMD_TRY(decode(node, path,
                  {{"matches", each([&](const Node& match, const std::string& at) {
                      ++matches;
                      return read_match(match, at, rule);
                    })},
                   {"targets", each([&](const Node& target, const std::string& at) {
                      return read_target(target, at, rule);
                    })}}));
  rule.any_model = matches == 0;
  if (rule.targets.empty()) return error_at(node, path + ".targets", "needs one target at least");
  rewrite.rules.push_back(std::move(rule));
  return {};
}

Status one_of(const Node& root, std::string_view field, const std::string& value,
              std::span<const std::string_view> known) {
  if (std::ranges::find(known, value) != known.end()) return {};
  const Node* const node = root.find(field);
  return error_at(node ? *node : root, std::string(field),
                  fmt::format("'{}' is not known{}", value, suggestion(value, known)));
}

Status read_object(const Node& root, std::string_view own_pool, ObjectsRead& out) {
  if (root.is_null()) return {};
  std::string version, kind, pool;
  Metadata metadata;
  request::Objective objective;
  request::ModelRewrite rewrite;
  const auto spec = [&](const Node& node, const std::string& path) {
    if (kind == kObjective)
      return decode(node, path,
                    {{"priority", into(objective.priority)}, {"poolRef", pool_into(pool)}});
    return decode(
        node, path,
        {{"poolRef", pool_into(pool)}, {"rules", each([&](const Node& rule, const std::string& at) {
                                          return read_rule(rule, at, rewrite);
                                        })}});
  };
  // The kind decides how the rest is read, wherever it stands.
  if (root.type != Node::Type::kMap)
    return error_at(root, "", "must be a map with apiVersion and kind");
  for (const auto& [field, target] : {std::pair("apiVersion", &version), std::pair("kind", &kind)})
    if (const Node* node = root.find(field)) LLMD_TRY(into(*target)(*node, field));
  LLMD_TRY(one_of(root, "apiVersion", version, kApiVersions));
  LLMD_TRY(one_of(root, "kind", kind, kKinds));
  LLMD_TRY(decode(root, "",
                  {{"apiVersion", ignore},
                   {"kind", ignore},
                   {"metadata", metadata_into(metadata)},
                   {"spec", spec},
                   {"status", ignore}}));
  if (metadata.name.empty()) return error_at(root, "metadata.name", "is missing");
  if (!pool.empty() && pool != own_pool) {
    out.warnings.push_back(fmt::format("{}: {} '{}' is for pool '{}' and not for '{}': left out",
                                       root.where(), kind, metadata.name, pool, own_pool));
    return {};
  }
  if (kind == kObjective) {
    objective.name = std::move(metadata.name);
    out.objectives.push_back(std::move(objective));
  } else {
    rewrite.name = std::move(metadata.name);
    rewrite.created = std::move(metadata.created);
    out.rewrites.push_back(std::move(rewrite));
  }
  return {};
}

bool is_objects_file(const std::filesystem::path& path) {
  const auto extension = path.extension();
  return extension == ".yaml" || extension == ".yml" || extension == ".json";
}

/// All files of a directory as one text: of each its path and its content, either with a NUL behind
/// it, in the order of their names.
Result<std::string> read_directory(const std::string& directory) {
  std::error_code error;
  std::vector<std::string> paths;
  for (std::filesystem::directory_iterator it(directory, error), end; !error && it != end;
       it.increment(error))
    if (is_objects_file(it->path())) paths.push_back(it->path().string());
  if (error)
    return fail(Code::kBadRequest,
                fmt::format("objects directory '{}': {}", directory, error.message()));
  if (paths.size() > kObjectsFilesMax)
    return fail(Code::kBadRequest, fmt::format("objects directory '{}': {} files, {} at most",
                                               directory, paths.size(), kObjectsFilesMax));
  std::ranges::sort(paths);
  std::string files;
  for (const auto& path : paths) {
    LLMD_TRY_ASSIGN(const std::string text, read_document(path));
    if (text.find('\0') != text.npos)
      return fail(Code::kBadRequest, fmt::format("{}: has a NUL byte", path));
    files.append(path).push_back('\0');
    files.append(text).push_back('\0');
  }
  return files;
}

std::string_view take_until_nul(std::string_view& text) {
  const std::string_view part = text.substr(0, text.find('\0'));
  text.remove_prefix(part.size() + 1);
  return part;
}

/// What read_directory() returned.
Result<ObjectsRead> parse_files(std::string_view files, std::string_view pool) {
  ObjectsRead out;
  while (!files.empty()) {
    const std::string_view path = take_until_nul(files);
    LLMD_TRY(parse_objects(take_until_nul(files), path, pool, out));
  }
  return out;
}

const metric::Definition kReloads = {
    .name = "llmd_objects_reloads_total",
    .kind = metric::Kind::kCounter,
    .help = "Attempts to load objectives and model rewrites.",
    .labels = {"result"},
    .buckets = {},
    .twins = {},
};

}  // namespace

Status parse_objects(std::string_view text, std::string_view file, std::string_view pool,
                     ObjectsRead& out) {
  // Each document is read with the lines before it left blank, so that errors name the right line.
  std::string document;
  size_t lines = 0;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    const bool separator = trim(line) == "---" && line.starts_with("---");
    if (!separator) document.append(line).append("\n");
    ++lines;
    at = end + 1;
    if (!separator && at <= text.size()) continue;
    LLMD_TRY_ASSIGN(const Node root, codec::parse_yaml(document, file, kObjectsFileBytesMax));
    LLMD_TRY(read_object(root, pool, out));
    document.assign(lines, '\n');
  }
  return {};
}

Result<ObjectsRead> read_objects(const std::string& directory, std::string_view pool) {
  LLMD_TRY_ASSIGN(const std::string files, read_directory(directory));
  return parse_files(files, pool);
}

ObjectsDirectory::ObjectsDirectory(std::string path, std::string pool, metric::Registry& metrics,
                                   Publish publish)
    : path_(std::move(path)),
      pool_(std::move(pool)),
      publish_(std::move(publish)),
      successes_(metrics.family(kReloads).counter(std::array<std::string_view, 1>{"success"})),
      failures_(metrics.family(kReloads).counter(std::array<std::string_view, 1>{"failure"})),
      files_(path_, {}, read_directory, [this](Result<std::string> files) {
        if (!files) return failed(files.error());
        if (auto loaded = load(*files); !loaded) failed(loaded.error());
      }) {}

Status ObjectsDirectory::start() {
  LLMD_TRY_ASSIGN(const std::string files, read_directory(path_));
  files_.assume(files);
  return load(files);
}

void ObjectsDirectory::failed(const Error& error) {
  failures_.add();
  log::error("objects not loaded, the last ones stay", {{"error", error.message}});
}

Status ObjectsDirectory::load(std::string_view files) {
  LLMD_TRY_ASSIGN(ObjectsRead out, parse_files(files, pool_));
  for (const auto& warning : out.warnings) log::warn(warning);
  auto objects =
      std::make_shared<const request::Objects>(std::move(out.objectives), std::move(out.rewrites));
  successes_.add();
  log::info("objects loaded", {{"directory", path_},
                               {"objectives", objects->objectives()},
                               {"rewrites", objects->rewrites().size()}});
  publish_(std::move(objects));
  return {};
}

}  // namespace llmd::config
