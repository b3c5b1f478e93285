// Single precision, bit for bit as `floats.py`: computed in double precision, made odd where that
// was rounded, and rounded once.
#pragma once
#include "functions.hpp"
#include "integer.hpp"

namespace perfassert {

constexpr u32 kNoNumber = 0x7FFFFFFFu;

template <class To, class From>
inline To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From), "same size");
  To to;
  std::memcpy(&to, &from, sizeof(to));
  return to;
}

inline double value_of(u32 word, bool flush) {
  double single = bits_as<float>(word);
  return flush && std::fabs(single) < 0x1p-126 ? std::copysign(0.0, single) : single;
}

// a + b, with the last bit set where it is not exact.
inline double odd_sum(double a, double b) {
  double total = a + b, part = total - a;
  double error = (a - (total - part)) + (b - part);
  u64 bits = bits_as<u64>(total);
  bool uneven = std::fabs(total) <= std::numeric_limits<double>::max() && error != 0 && error == error;
  if (uneven && !(bits & 1)) bits += (error > 0) == (total > 0) ? 1 : ~u64{0};
  return bits_as<double>(bits);
}

inline float rounded(double value, i64 rounding) {
  float nearest = static_cast<float>(value);
  if (rounding == kNearest) return nearest;
  constexpr float infinite = std::numeric_limits<float>::infinity();
  double back = nearest;
  float down = back > value ? std::nextafter(nearest, -infinite) : nearest;
  float up = back < value ? std::nextafter(nearest, infinite) : nearest;
  if (rounding == kDown) return down;
  if (rounding == kUp) return up;
  return value > 0 ? down : up;
}

inline u32 finished(double value, i64 rounding, bool flush, bool saturate) {
  float result = rounded(value, rounding);
  if (flush && std::fabs(result) < 0x1p-126f) result = std::copysign(0.0f, result);
  if (saturate) result = result > 0 ? (result < 1 ? result : 1.0f) : 0.0f;
  return result == result ? bits_as<u32>(result) : kNoNumber;
}

inline u32 nearest_word(float result) { return result == result ? bits_as<u32>(result) : kNoNumber; }

inline bool plain(const Op& op) { return !op.detail[0] && !op.detail[1] && !op.detail[2]; }

inline void float_add(const Op& op, Sources s, Results out) {
  if (plain(op)) {  // a single sum is rounded once anyway
    each(out[0], [=](int l) { return nearest_word(bits_as<float>(s[0][l]) + bits_as<float>(s[1][l])); });
    return;
  }
  i64 rounding = op.detail[0];
  bool flush = op.detail[1] != 0, saturate = op.detail[2] != 0;
  each(out[0], [=](int l) {
    return finished(odd_sum(value_of(s[0][l], flush), value_of(s[1][l], flush)), rounding, flush, saturate);
  });
}

inline void float_multiply(const Op& op, Sources s, Results out) {
  if (plain(op)) {
    each(out[0], [=](int l) { return nearest_word(bits_as<float>(s[0][l]) * bits_as<float>(s[1][l])); });
    return;
  }
  i64 rounding = op.detail[0];
  bool flush = op.detail[1] != 0, saturate = op.detail[2] != 0;
  each(out[0], [=](int l) {  // 48 bits: exact
    return finished(value_of(s[0][l], flush) * value_of(s[1][l], flush), rounding, flush, saturate);
  });
}

inline void float_fused(const Op& op, Sources s, Results out) {
  if (plain(op)) {
    each(out[0], [=](int l) {
      double product = static_cast<double>(bits_as<float>(s[0][l])) * bits_as<float>(s[1][l]);
      return nearest_word(static_cast<float>(odd_sum(product, bits_as<float>(s[2][l]))));
    });
    return;
  }
  i64 rounding = op.detail[0];
  bool flush = op.detail[1] != 0, saturate = op.detail[2] != 0;
  each(out[0], [=](int l) {
    double product = value_of(s[0][l], flush) * value_of(s[1][l], flush);
    return finished(odd_sum(product, value_of(s[2][l], flush)), rounding, flush, saturate);
  });
}

template <class A, class B>
inline void compared(i64 relation, bool unordered, u32* out, A a, B b) {
  u32 neither[kWarp];
  each(neither, [=](int l) { return static_cast<u32>(a(l) != a(l) || b(l) != b(l)); });
  if (relation == kOrdered) return each(out, [&](int l) { return neither[l] ^ 1; });
  if (relation == kUnordered) return each(out, [&](int l) { return neither[l]; });
  if (relation == kNever || relation == kAlways)
    return each(out, [=](int) { return static_cast<u32>(relation == kAlways); });
  related(relation, out, a, b);
  for (int l = 0; l < kWarp; ++l) out[l] = unordered ? out[l] | neither[l] : out[l] & ~neither[l];
}

inline void float_compare(const Op& op, Sources s, Results out) {
  bool flush = op.detail[2] != 0;
  compared(op.detail[0], op.detail[1] != 0, out[0], [=](int l) { return value_of(s[0][l], flush); },
           [=](int l) { return value_of(s[1][l], flush); });
}

// A number wins over one that is none; −0 is below 0.
inline void float_minimum(const Op& op, Sources s, Results out) {
  bool flush = op.detail[0] != 0;
  each(out[0], [=](int l) {
    double first = value_of(s[0][l], flush), second = value_of(s[1][l], flush);
    bool below = first < second || (first == second && std::signbit(first));
    double chosen = below == (s[2][l] != 0) ? first : second;
    if (second != second) chosen = first;
    if (first != first) chosen = second;
    return finished(chosen, kNearest, flush, false);
  });
}

inline void float_function(const Op& op, Sources s, Results out) {
  i64 function = op.detail[0];
  if (function != kRcpHigh && function != kRsqHigh) {
    each(out[0], [=](int l) { return finished(approximate(function, value_of(s[0][l], true)), kNearest, 0, 0); });
    return;
  }
  each(out[0], [=](int l) {  // the high word of a double's reciprocal (root), from its high word
    double x = bits_as<double>(static_cast<u64>(s[0][l]) << 32);
    double value = 1.0 / (function == kRsqHigh ? std::sqrt(x) : x);
    return value == value ? static_cast<u32>(bits_as<u64>(value) >> 32) : 0x7FF80000u;
  });
}

// Exponents near the ends of the range, where the quotient's steps could over- or underflow.
inline void float_check(const Op&, Sources s, Results out) {
  each(out[0], [=](int l) {
    int top = (s[0][l] >> 23) & 255, bottom = (s[1][l] >> 23) & 255;
    bool extreme = bottom == 0 || bottom >= 252 || top == 255;
    return static_cast<u32>(extreme || (top != 0 && (top > bottom ? top - bottom : bottom - top) > 124));
  });
}

}  // namespace perfassert
