#pragma once

#include <array>
#include <cstddef>

/// The histogram bounds of the metric contract, each under the short name that the metric catalogue
/// gives it. +Inf is implied.
namespace llmd::metric::buckets {

namespace detail {

/// `first`, then N - 1 numbers that start at `low` and double.
template <size_t N>
constexpr std::array<double, N> powers_of_two_after(double first, double low) {
  std::array<double, N> bounds{first};
  for (size_t i = 1; i < N; ++i, low *= 2) bounds[i] = low;
  return bounds;
}

}  // namespace detail

inline constexpr double kGen[] = {.005, .025, .05, .1,  .2,  .4,  .6,  .8,   1,    1.25, 1.5, 2,
                                  3,    4,    5,   6,   8,   10,  15,  20,   30,   45,   60,  120,
                                  180,  240,  300, 360, 480, 600, 900, 1200, 1800, 2700, 3600};

inline constexpr double kTtft[] = {.005, .025, .05, .1, .2, .4, .6, .8, 1,  1.25, 1.5, 2,
                                   3,    4,    5,   6,  8,  10, 15, 20, 30, 45,   60,  120};

inline constexpr double kTpot[] = {.0005, .00205, .005, .01, .02, .04, .06, .08, .1, .125,
                                   .15,   .2,     .3,   .4,  .5,  .6,  .8,  1,   2};

inline constexpr double kPtpot[] = {
    .0005, .00205, .005, .01, .02, .04, .06, .08, .1, .125, .15, .2, .3, .4,  .5,  .6,  .8, 1,
    1.5,   2,      3,    4.5, 6,   12,  18,  24,  30, 36,   48,  60, 90, 120, 180, 270, 360};

inline constexpr double kNtpot[] = {.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10};

inline constexpr double kItl[] = {.001, .005, .01, .02, .04, .06, .08, .1,
                                  .15,  .2,   .3,  .5,  .75, 1,   2};

inline constexpr double kFast[] = {.0001, .0002, .0005, .001, .002, .005, .01, .02, .05, .1};

inline constexpr double kReqProc[] = {.0005, .001, .002, .005, .01, .015, .025, .04,
                                      .06,   .1,   .25,  .5,   1,   2.5,  5,    10};

inline constexpr double kRespProc[] = {.0001, .00025, .0005, .001, .0025, .005, .01, .025,
                                       .05,   .1,     .25,   .5,   1,     2.5,  5};

inline constexpr double kQDur[] = {.0001, .0005, .001, .005, .01, .025, .05, .1,
                                   .25,   .5,    1,    2.5,  5,   10,   30,  60};

inline constexpr double kConf[] = {.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10};

inline constexpr double kStream[] = {.001, .005, .01, .05, .1, .5, 1, 5, 10, 30, 60, 120, 300, 600};

inline constexpr double kPredLat[] = {.0001, .0005, .001, .002, .005, .01, .02,
                                      .05,   .1,    .2,   .5,   1,    2,   5};

inline constexpr double kDef[] = {.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10};

/// 64 to 1 GiB.
inline constexpr auto kSz = detail::powers_of_two_after<25>(64, 128);

/// 32778 is what the contract and its recording rules say.
inline constexpr double kRsz[] = {1,    8,    16,   32,   64,    128,   256,  512,
                                  1024, 2048, 4096, 8192, 16384, 32778, 65536};

inline constexpr double kTok[] = {1,     8,      16,     32,     64,     128,   256,
                                  512,   1024,   2048,   4096,   8192,   16384, 32778,
                                  65536, 131072, 262144, 524288, 1048576};

/// 1, then 8 to 8192.
inline constexpr auto kOut = detail::powers_of_two_after<12>(1, 8);

inline constexpr double kHitr[] = {0, .1, .2, .3, .4, .5, .6, .7, .8, .9, 1};

/// 0, then 16 to 65536.
inline constexpr auto kHitb = detail::powers_of_two_after<14>(0, 16);

}  // namespace llmd::metric::buckets
