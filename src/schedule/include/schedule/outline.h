#pragma once

#include <memory>
#include <string>
#include <vector>

namespace llmd::schedule {

struct Pipeline;

/// The names of a pipeline's parts, for what may outlive it: kept decisions. Immutable.
struct Outline {
  struct Scorer {
    std::string name;
    double weight = 1.0;
  };
  struct Profile {
    std::string name;
    std::vector<std::string> filters;
    std::vector<Scorer> scorers;
    std::string picker;
  };
  std::string handler;
  std::vector<std::string> producers;
  std::vector<Profile> profiles;
};
using OutlinePtr = std::shared_ptr<const Outline>;

OutlinePtr outline_of(const Pipeline& pipeline);

}  // namespace llmd::schedule
