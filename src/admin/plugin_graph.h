#pragma once

#include "schedule/pipeline.h"

#include <string>

namespace llmd::admin {

/// The body of GET /debug/plugins: every plugin with its parameters, and where each is called.
std::string plugin_graph(const schedule::Pipeline& pipeline);

}  // namespace llmd::admin
