#pragma once

#include "plugin_list.h"

#include "config/loader.h"

#include <gtest/gtest.h>

#include <string>

namespace llmd {

/// Loads configurations with the plugin types of the process.
class ConfigFixture : public testing::Test {
 protected:
  /// `more`: lines after those that every document begins with.
  explicit ConfigFixture(std::string_view more = "") { head_ += more; }

  Result<config::Loaded> load_document(std::string_view text, std::string_view file = "f.yaml") {
    return config::load(text, file, environment_);
  }
  /// Loads the document's beginning and `body`.
  Result<config::Loaded> load(std::string_view body) {
    return load_document(std::string(head_).append(body));
  }
  std::string error_of(std::string_view body) {
    const auto loaded = load(body);
    return loaded ? "no error" : loaded.error().message;
  }

  std::string head_ = "apiVersion: llm-d.ai/v1\nkind: EndpointPickerConfig\n";
  plugin::Registry registry_ = builtin_plugins();
  plugin::StateStore state_;
  metric::Registry metrics_{1};
  ManualClock clock_;
  config::Environment environment_{registry_, state_, metrics_, clock_};
};

}  // namespace llmd
