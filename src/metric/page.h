#pragma once

#include "family.h"

#include <string>

namespace llmd::metric {

/// Appends the family's lines, or those of its twin: HELP, TYPE, then the series in order of their
/// labels. A family without series appends nothing.
void append_family(std::string& out, const FamilyImpl& family, const TwinView* twin);

}  // namespace llmd::metric
