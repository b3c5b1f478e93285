// The hardware's approximate functions in double precision: step by step as `functions.py`.
#pragma once
#include <cmath>
#include <limits>

#include "code.hpp"

namespace perfassert {

inline double power_of_two(double x) {
  constexpr double range = 2000.0, ln_2 = 0.6931471805599453;
  double bounded = x > range ? range : x < -range ? -range : x;
  double whole = std::rint(bounded);
  double y = (bounded - whole) * ln_2;
  double total = 1.0;
  for (int term = 14; term > 0; --term) total = 1.0 + y * total / term;
  return std::ldexp(total, whole == whole ? static_cast<int>(whole) : 0);
}

inline double logarithm(double x) {
  constexpr double ln_2 = 0.6931471805599453, root_half = 0.7071067811865476;
  constexpr double infinite = std::numeric_limits<double>::infinity();
  if (!(x > 0 && x < infinite)) {
    if (x == 0) return -infinite;
    return x > 0 ? x : std::numeric_limits<double>::quiet_NaN();
  }
  int exponent;
  double mantissa = std::frexp(x, &exponent);
  if (mantissa < root_half) {
    mantissa *= 2.0;
    --exponent;
  }
  double s = (mantissa - 1.0) / (mantissa + 1.0), square = s * s, total = 0.0;
  for (int power = 25; power > 0; power -= 2) total = 1.0 / power + square * total;
  return exponent + 2.0 * s * total / ln_2;
}

// Sine of x revolutions, `quarter` quarters of one further on.
inline double turned(double x, double quarter) {
  constexpr double tau = 6.283185307179586;
  double part = x - std::rint(x), nearest = std::rint(part * 4.0);
  double y = (part - nearest * 0.25) * tau, square = y * y, sine = 1.0, cosine = 1.0;
  for (int n = 18; n > 0; n -= 2) {
    sine = 1.0 - square * sine / (n * (n + 1.0));
    cosine = 1.0 - square * cosine / (n * (n - 1.0));
  }
  double turn = nearest + quarter;
  turn = turn - std::floor(turn * 0.25) * 4.0;
  double found = turn == 1.0 || turn == 3.0 ? cosine : y * sine;
  return turn >= 2.0 ? -found : found;
}

inline double hyperbolic_tangent(double x) {
  constexpr double log2_e = 1.4426950408889634;
  double size = std::fabs(x), bounded = size > 40.0 ? 40.0 : size, value;
  if (bounded < 0.35) {
    double y = 2.0 * bounded, total = 1.0;
    for (int term = 18; term > 1; --term) total = 1.0 + y * total / term;
    double little = y * total;
    value = little / (little + 2.0);
  } else {
    value = 1.0 - 2.0 / (power_of_two(2.0 * bounded * log2_e) + 1.0);
  }
  return std::copysign(value, x);
}

inline double approximate(i64 function, double x) {
  switch (function) {
    case kCos: return turned(x, 1.0);
    case kSin: return turned(x, 0.0);
    case kEx2: return power_of_two(x);
    case kLg2: return logarithm(x);
    case kRcp: return 1.0 / x;
    case kRsq: return 1.0 / std::sqrt(x);
    case kSqrt: return std::sqrt(x);
    default: return hyperbolic_tangent(x);
  }
}

}  // namespace perfassert
