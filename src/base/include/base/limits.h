#pragma once

#include <cstddef>

/// Bounds of the process, each with its reason. Module-local limits stand in their module.
namespace llmd::limits {

/// Endpoints of one fleet. Slots index arrays and bit sets; 4096 is four times the largest
/// published fleet, and a bit set of that size is 512 bytes.
inline constexpr size_t kEndpointsMax = 4096;

/// Plugins of one configuration: attribute and request slots are 16-bit indices, and a graph larger
/// than this is a mistake.
inline constexpr size_t kPluginsMax = 256;

}  // namespace llmd::limits
