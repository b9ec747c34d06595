#include "plugin_list.h"

#include "config/dump.h"
#include "config/loader.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

namespace llmd {
namespace {

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void expect_documented(const std::vector<plugin::ParamInfo>& params, const std::string& path) {
  for (const auto& param : params) {
    EXPECT_FALSE(param.doc.empty()) << path << param.name;
    expect_documented(param.fields, path + param.name + ".");
  }
}

TEST(PluginList, DocumentsEveryTypeAndParameter) {
  const auto registry = builtin_plugins();
  for (const auto& descriptor : registry.descriptors()) {
    EXPECT_FALSE(descriptor.kind.empty()) << descriptor.type;
    EXPECT_TRUE(descriptor.summary.ends_with('.')) << descriptor.type;
    expect_documented(descriptor.params, std::string(descriptor.type) + ": ");
  }
}

/// Set LLMD_UPDATE_DOCS to write the page instead.
TEST(PluginList, IsWhatTheReferencePageSays) {
  const std::string path = std::string(LLMD_SOURCE_DIR) + "/docs/plugins.md";
  const std::string page = config::plugins_reference(builtin_plugins());
  if (std::getenv("LLMD_UPDATE_DOCS")) std::ofstream(path, std::ios::binary) << page;
  EXPECT_TRUE(read(path) == page) << "docs/plugins.md is out of date: run make docs";
}

}  // namespace
}  // namespace llmd
