#pragma once

#include "base/clock.h"
#include "base/result.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace llmd {

/// ASCII case-insensitive equality, as header names need it.
bool equals_ignore_case(std::string_view a, std::string_view b);
std::string to_lower(std::string_view text);
std::string_view trim(std::string_view text);

/// The candidate with the least edit distance to `name`, if it is near enough to be a likely
/// misspelling (at most a third of the longer length, at least 2). Empty if none is.
std::string_view nearest_name(std::string_view name, std::span<const std::string_view> candidates);

/// " (did you mean 'x'?)" or "" for use at the end of an error message.
std::string suggestion(std::string_view name, std::span<const std::string_view> candidates);

/// A duration in Go's syntax: "300ms", "1m30s", "1.5h", "0". Errors say what is wrong with the
/// text.
Result<Nanos> parse_duration(std::string_view text);
/// The shortest Go-style spelling: "400ms", "1m30s", "0s".
std::string format_duration(Nanos d);

/// A Kubernetes quantity as a whole number: "10k" = 10000, "1Gi" = 2^30, "1e3", "1.5Gi". Negative
/// is an error; a fractional result rounds up, as Kubernetes does.
Result<int64_t> parse_quantity(std::string_view text);

/// The whole text as a number; nothing else may stand around it.
std::optional<int64_t> parse_int(std::string_view text);
std::optional<double> parse_double(std::string_view text);

/// Appends `text` to `out` as the inside of a JSON string: quotes, backslashes and control
/// characters escaped; invalid UTF-8 becomes U+FFFD.
void append_json_escaped(std::string& out, std::string_view text);

/// A random (version 4) UUID in the usual 36-character form, from 128 random bits.
std::string uuid_v4(uint64_t high, uint64_t low);

}  // namespace llmd
