#include "base/text.h"

#include "json_escape.h"

#include "base/rng.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace llmd {
namespace {

constexpr char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
}
/// lower() of each of eight bytes.
constexpr uint64_t lower_each(uint64_t bytes) {
  constexpr uint64_t kEach = 0x0101010101010101;
  const uint64_t low = bytes & kEach * 0x7f;
  const uint64_t from_a = low + kEach * (0x80 - 'A');  // top bit: at least 'A'
  const uint64_t past_z = low + kEach * (0x7f - 'Z');  // top bit: above 'Z'
  const uint64_t upper = (from_a ^ past_z) & ~bytes & kEach * 0x80;
  return bytes | upper >> 2;
}
constexpr bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// Edits (insert, delete, replace, swap of neighbours) that turn `a` into `b`.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), previous(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) previous[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = previous[j - 1] + (lower(a[i - 1]) != lower(b[j - 1]));
      row[j] = std::min({previous[j] + 1, row[j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, previous);
    std::swap(previous, row);
  }
  return previous[b.size()];
}

/// Digits and at most one point from the front of a text, as `digits` / 10^`scale`.
struct Decimal {
  uint64_t digits = 0;
  int scale = 0;
  size_t length = 0;  // bytes consumed
  bool any = false;   // at least one digit was there
  bool fits = true;
};

Decimal read_decimal(std::string_view text) {
  Decimal d;
  bool point = false;
  for (; d.length < text.size(); ++d.length) {
    const char c = text[d.length];
    if (c == '.' && !point) {
      point = true;
    } else if (is_digit(c)) {
      d.any = true;
      if (__builtin_mul_overflow(d.digits, 10, &d.digits) ||
          __builtin_add_overflow(d.digits, c - '0', &d.digits))
        d.fits = false;
      if (point) ++d.scale;
    } else {
      break;
    }
  }
  return d;
}

uint128 power_of_ten(int n) {
  uint128 p = 1;
  while (n-- > 0) p *= 10;
  return p;
}

struct Unit {
  std::string_view name;
  uint64_t nanos;
};
constexpr Unit kUnits[] = {
    {"ns", 1},         {"us", 1000},         {"\u00b5s", 1000},     {"\u03bcs", 1000},
    {"ms", 1'000'000}, {"s", 1'000'000'000}, {"m", 60'000'000'000}, {"h", 3'600'000'000'000}};

struct Suffix {
  std::string_view name;
  uint64_t multiplier;
  int scale;  // the multiplier is divided by 10^scale
};
constexpr Suffix kSuffixes[] = {{"", 1, 0},
                                {"n", 1, 9},
                                {"u", 1, 6},
                                {"m", 1, 3},
                                {"k", 1'000, 0},
                                {"M", 1'000'000, 0},
                                {"G", 1'000'000'000, 0},
                                {"T", 1'000'000'000'000, 0},
                                {"P", 1'000'000'000'000'000, 0},
                                {"E", 1'000'000'000'000'000'000, 0},
                                {"Ki", uint64_t{1} << 10, 0},
                                {"Mi", uint64_t{1} << 20, 0},
                                {"Gi", uint64_t{1} << 30, 0},
                                {"Ti", uint64_t{1} << 40, 0},
                                {"Pi", uint64_t{1} << 50, 0},
                                {"Ei", uint64_t{1} << 60, 0}};

}  // namespace

bool equals_ignore_case(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  const char* x = a.data();
  const char* y = b.data();
  size_t left = a.size();
  for (; left >= sizeof(uint64_t); x += 8, y += 8, left -= 8) {
    uint64_t v, w;
    std::memcpy(&v, x, sizeof v);
    std::memcpy(&w, y, sizeof w);
    if (v != w && lower_each(v) != lower_each(w)) return false;
  }
  for (; left > 0; ++x, ++y, --left)
    if (*x != *y && lower(*x) != lower(*y)) return false;
  return true;
}

std::string to_lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = lower(c);
  return out;
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n\f\v";
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

std::string_view nearest_name(std::string_view name, std::span<const std::string_view> candidates) {
  std::string_view best;
  size_t best_distance = std::numeric_limits<size_t>::max();
  for (const auto candidate : candidates) {
    const size_t longer = std::max(name.size(), candidate.size());
    const size_t distance = edit_distance(name, candidate);
    if (distance <= std::max<size_t>(longer / 3, 2) && distance < longer &&
        distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string suggestion(std::string_view name, std::span<const std::string_view> candidates) {
  const auto nearest = nearest_name(name, candidates);
  return nearest.empty() ? std::string() : fmt::format(" (did you mean '{}'?)", nearest);
}

Result<Nanos> parse_duration(std::string_view text) {
  const auto bad = [&](std::string_view why) {
    return fail(Code::kBadRequest, fmt::format("invalid duration '{}': {}", text, why));
  };
  std::string_view rest = text;
  const bool negative = rest.starts_with('-');
  if (negative || rest.starts_with('+')) rest.remove_prefix(1);
  if (rest.empty()) return bad("empty");
  if (rest == "0") return Nanos(0);

  constexpr auto kMax = static_cast<uint128>(std::numeric_limits<int64_t>::max());
  uint128 total = 0;
  while (!rest.empty()) {
    const Decimal d = read_decimal(rest);
    if (!d.any) return bad("a number must stand before each unit");
    if (!d.fits || d.scale > 18) return bad("too many digits");
    rest.remove_prefix(d.length);
    const size_t unit_length = std::min(rest.find_first_of("0123456789."), rest.size());
    const auto unit_name = rest.substr(0, unit_length);
    if (unit_name.empty()) return bad("unit missing (ns, us, ms, s, m, h)");
    const auto* unit = std::ranges::find(kUnits, unit_name, &Unit::name);
    if (unit == std::end(kUnits))
      return bad(fmt::format("unknown unit '{}' (ns, us, ms, s, m, h)", unit_name));
    total += static_cast<uint128>(d.digits) * unit->nanos / power_of_ten(d.scale);
    if (total > kMax) return bad("out of range");
    rest.remove_prefix(unit_length);
  }
  const auto nanos = static_cast<int64_t>(total);
  return Nanos(negative ? -nanos : nanos);
}

std::string format_duration(Nanos d) {
  if (d.count() == 0) return "0s";
  // The magnitude is computed unsigned, where the most negative value has one.
  uint64_t rest =
      d.count() < 0 ? -static_cast<uint64_t>(d.count()) : static_cast<uint64_t>(d.count());
  std::string out = d.count() < 0 ? "-" : "";
  const auto append = [&](uint64_t whole, uint64_t fraction, int digits, std::string_view unit) {
    out += fmt::format("{}", whole);
    if (fraction != 0) {
      const std::string decimals = fmt::format("{:0{}}", fraction, digits);
      out += '.';
      out.append(decimals, 0, decimals.find_last_not_of('0') + 1);
    }
    out += unit;
  };
  if (rest < 1'000) {
    append(rest, 0, 0, "ns");
  } else if (rest < 1'000'000) {
    append(rest / 1'000, rest % 1'000, 3, "us");
  } else if (rest < 1'000'000'000) {
    append(rest / 1'000'000, rest % 1'000'000, 6, "ms");
  } else {
    constexpr uint64_t kSecond = 1'000'000'000, kMinute = 60 * kSecond, kHour = 60 * kMinute;
    if (rest >= kHour) append(rest / kHour, 0, 0, "h");
    if (rest % kHour >= kMinute) append(rest % kHour / kMinute, 0, 0, "m");
    if (rest % kMinute != 0) append(rest % kMinute / kSecond, rest % kSecond, 9, "s");
  }
  return out;
}

Result<int64_t> parse_quantity(std::string_view text) {
  const auto bad = [&](std::string_view why) {
    return fail(Code::kBadRequest, fmt::format("invalid quantity '{}': {}", text, why));
  };
  std::string_view rest = text;
  if (rest.starts_with('-')) return bad("must not be negative");
  if (rest.starts_with('+')) rest.remove_prefix(1);
  const Decimal d = read_decimal(rest);
  if (!d.any) return bad("must begin with a number");
  if (!d.fits || d.scale > 19) return bad("too many digits");
  rest.remove_prefix(d.length);

  uint128 multiplier = 1;
  int scale = d.scale;
  if (rest.size() > 1 && (rest[0] == 'e' || rest[0] == 'E') && rest[1] != 'i') {
    rest.remove_prefix(rest[1] == '+' ? 2 : 1);
    const auto exponent = parse_int(rest);
    if (!exponent || *exponent < -18 || *exponent > 18)
      return bad("exponent must be a whole number from -18 to 18");
    if (*exponent < 0)
      scale += static_cast<int>(-*exponent);
    else
      multiplier = power_of_ten(static_cast<int>(*exponent));
  } else {
    const auto* suffix = std::ranges::find(kSuffixes, rest, &Suffix::name);
    if (suffix == std::end(kSuffixes))
      return bad(
          fmt::format("unknown suffix '{}' (k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, Ei)", rest));
    multiplier = suffix->multiplier;
    scale += suffix->scale;
  }
  const uint128 divisor = power_of_ten(scale);
  const uint128 value = (d.digits * multiplier + (divisor - 1)) / divisor;
  if (value > static_cast<uint128>(std::numeric_limits<int64_t>::max())) return bad("out of range");
  return static_cast<int64_t>(value);
}

std::optional<int64_t> parse_int(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<double> parse_double(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value))
    return std::nullopt;
  return value;
}

size_t utf8_sequence(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const size_t length = first >= 0xC2 && first <= 0xDF   ? 2
                        : (first & 0xF0) == 0xE0         ? 3
                        : first >= 0xF0 && first <= 0xF4 ? 4
                                                         : 0;
  if (length == 0 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xC0) != 0x80) return 0;
  const unsigned char second = byte(1);
  const bool overlong = (first == 0xE0 && second < 0xA0) || (first == 0xF0 && second < 0x90);
  const bool surrogate = first == 0xED && second > 0x9F;
  const bool too_large = first == 0xF4 && second > 0x8F;
  return overlong || surrogate || too_large ? 0 : length;
}

void append_json_escaped(std::string& out, std::string_view text) {
  escape_json(text, [&](std::string_view piece) { out.append(piece); });
}

std::string uuid_v4(uint64_t high, uint64_t low) {
  high = (high & ~uint64_t{0xF000}) | 0x4000;
  low = (low & ~(uint64_t{3} << 62)) | (uint64_t{1} << 63);
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out(36, '-');
  char* at = out.data();
  // Takes `digits` digits from the top of `bits`.
  const auto put = [&](uint64_t& bits, int digits) {
    for (; digits > 0; --digits, bits <<= 4) *at++ = kDigits[bits >> 60];
  };
  put(high, 8), ++at, put(high, 4), ++at, put(high, 4), ++at;
  put(low, 4), ++at, put(low, 12);
  return out;
}

}  // namespace llmd
