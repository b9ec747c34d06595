#pragma once

#include "fleet/metrics_source.h"

#include <utility>
#include <vector>

namespace llmd::plugins {

/// An extractor of attributes, which is nothing but their list.
class AttributeExtractor : public fleet::MetricsExtractor {
 public:
  explicit AttributeExtractor(std::vector<fleet::AttributeSeries> attributes) {
    options_.attributes = std::move(attributes);
  }
  const Options& options() const final { return options_; }

 private:
  Options options_;
};

}  // namespace llmd::plugins
