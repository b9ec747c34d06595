#pragma once

#include <cstdint>
#include <string_view>

/// Headers of clients that mean something to the picker. Both front ends know them from here.
namespace llmd::frontend {

inline constexpr std::string_view kDestinationHeader = "x-gateway-destination-endpoint";
inline constexpr std::string_view kFairnessHeader = "x-llm-d-inference-fairness-id";
inline constexpr std::string_view kObjectiveHeader = "x-llm-d-inference-objective";

/// Tells servers, or proxy and picker each other, where to connect to. Only the picker may set it:
/// a client could otherwise direct servers to any address.
bool is_routing(std::string_view name);

/// What a client asks of the picker. An untrusted client is not heard (--untrusted-clients), and
/// what is known by its API key comes before what it says.
enum class Control : uint8_t { kNone, kObjective, kFairness, kRewrite };
/// By the new or the old name of the header.
Control control_of(std::string_view name);

/// Holds a client's key: Authorization or x-api-key.
bool is_credential(std::string_view name);

}  // namespace llmd::frontend
