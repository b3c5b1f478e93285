// Double precision and conversions, bit for bit as `floats.py`.
#pragma once
#include "singles.hpp"

namespace perfassert {

inline double double_of(u32 low, u32 high) { return bits_as<double>(wide(low, high)); }

inline void pair(double value, Results out, int l) {
  halves(value == value ? bits_as<u64>(value) : 0x7FF8000000000000u, out, l);
}

// The neighbour of a rounded value that a rounding names; `left` has the sign of what was cut off.
inline double directed(double nearest, double left, i64 rounding) {
  constexpr double infinite = std::numeric_limits<double>::infinity();
  bool lower = rounding == kDown || (rounding == kZero && nearest > 0);
  if (rounding == kNearest || left == 0 || left != left || (left < 0) != lower) return nearest;
  return std::nextafter(nearest, lower ? -infinite : infinite);
}

// Exact product in two parts (Dekker), their sum with the addend made odd, rounded once; to nearest
// where a part overflows or underflows.
inline double fused(double first, double second, double third, i64 rounding) {
  constexpr double split = (1 << 27) + 1;
  double product = first * second, large = first * split, other = second * split;
  double top = large - (large - first), head = other - (other - second);
  double rest = first - top, tail = second - head;
  double error = ((top * head - product) + top * tail + rest * head) + rest * tail;
  double total = product + third, part = total - product;
  double below = (product - (total - part)) + (third - part);
  double remainder = odd_sum(error, below), result = total + remainder;
  if (!std::isfinite(result) || !std::isfinite(error)) return product + third;
  return directed(result, remainder - (result - total), rounding);
}

inline void double_add(const Op& op, Sources s, Results out) {
  i64 rounding = op.detail[0];
  for (int l = 0; l < kWarp; ++l) {
    double first = double_of(s[0][l], s[1][l]), second = double_of(s[2][l], s[3][l]);
    double total = rounding == kNearest ? 0 : fused(first, 1.0, second, rounding);
    pair(total == 0 ? first + second : total, out, l);  // with the sign of a zero
  }
}

inline void double_multiply(const Op& op, Sources s, Results out) {
  i64 rounding = op.detail[0];
  for (int l = 0; l < kWarp; ++l) {
    double first = double_of(s[0][l], s[1][l]), second = double_of(s[2][l], s[3][l]);
    double product = rounding == kNearest ? 0 : fused(first, second, 0.0, rounding);
    pair(product == 0 ? first * second : product, out, l);  // with the sign of a zero
  }
}

inline void double_fused(const Op& op, Sources s, Results out) {
  for (int l = 0; l < kWarp; ++l)
    pair(fused(double_of(s[0][l], s[1][l]), double_of(s[2][l], s[3][l]), double_of(s[4][l], s[5][l]), op.detail[0]),
         out, l);
}

inline void double_compare(const Op& op, Sources s, Results out) {
  compared(op.detail[0], op.detail[1] != 0, out[0], [=](int l) { return double_of(s[0][l], s[1][l]); },
           [=](int l) { return double_of(s[2][l], s[3][l]); });
}

// A 64-bit integer as a double that rounds to single precision as the integer does.
inline double odd_double(u64 value, bool negative) {
  u64 size = negative ? 0 - value : value;
  double number = static_cast<double>(size);
  if (size >= u64{1} << 53) number = static_cast<double>((size >> 11) | ((size & 0x7FF) != 0)) * 2048.0;
  return negative ? -number : number;
}

inline void from_integer(const Op& op, Sources s, Results out) {
  bool is_signed = op.detail[1] != 0, to_double = op.detail[2] == 64;
  for (int l = 0; l < kWarp; ++l) {
    double number;
    if (op.detail[0] == 64) {
      u64 value = wide(s[0][l], s[1][l]);
      bool negative = is_signed && value >> 63;
      if (to_double) number = is_signed ? static_cast<double>(static_cast<i64>(value)) : static_cast<double>(value);
      else number = odd_double(value, negative);
    } else {
      number = is_signed ? static_cast<double>(static_cast<i32>(s[0][l])) : static_cast<double>(s[0][l]);
    }
    if (to_double) pair(number, out, l);
    else out[0][l] = finished(number, op.detail[3], false, false);
  }
}

inline double whole(double value, i64 rounding) {
  switch (rounding) {
    case kDown: return std::floor(value);
    case kUp: return std::ceil(value);
    case kZero: return std::trunc(value);
    default: return std::rint(value);
  }
}

// Out of range means the nearest end; what is no number means 0, or 2⁶³ in 64 bits.
inline void to_integer(const Op& op, Sources s, Results out) {
  bool from_double = op.detail[0] == 64, is_signed = op.detail[2] != 0, flush = op.detail[4] != 0;
  int bits = static_cast<int>(op.detail[1]);
  u64 least = is_signed ? 0 - (u64{1} << (bits - 1)) : 0;
  u64 most = (~u64{0} >> (64 - bits)) >> (is_signed ? 1 : 0);
  double low = is_signed ? static_cast<double>(static_cast<i64>(least)) : 0.0, high = static_cast<double>(most);
  for (int l = 0; l < kWarp; ++l) {
    double value = whole(from_double ? double_of(s[0][l], s[1][l]) : value_of(s[0][l], flush), op.detail[3]);
    u64 result = 0;
    if (value != value) result = bits == 64 ? u64{1} << 63 : 0;
    else if (value <= low) result = least;
    else if (value >= high) result = most;
    else result = is_signed ? static_cast<u64>(static_cast<i64>(value)) : static_cast<u64>(value);
    halves(result, out, l);
  }
}

inline void round_whole(const Op& op, Sources s, Results out) {
  bool flush = op.detail[1] != 0;
  each(out[0], [&](int l) {
    return finished(whole(value_of(s[0][l], flush), op.detail[0]), kNearest, false, false);
  });
}

inline void double_round(const Op& op, Sources s, Results out) {
  for (int l = 0; l < kWarp; ++l) pair(whole(double_of(s[0][l], s[1][l]), op.detail[0]), out, l);
}

inline void narrow(const Op& op, Sources s, Results out) {
  i64 rounding = op.detail[0];
  each(out[0], [=](int l) { return finished(double_of(s[0][l], s[1][l]), rounding, false, false); });
}

inline void widen(const Op&, Sources s, Results out) {
  for (int l = 0; l < kWarp; ++l) pair(value_of(s[0][l], false), out, l);
}

inline void half_to_float(const Op& op, Sources s, Results out) {
  int shift = op.detail[0] ? 16 : 0;
  each(out[0], [=](int l) {
    u32 half = (s[0][l] >> shift) & 0xFFFF, exponent = (half >> 10) & 31, mantissa = half & 1023;
    if (exponent == 31 && mantissa) return kNoNumber;
    double size = exponent == 31 ? std::numeric_limits<double>::infinity()
                  : exponent     ? std::ldexp(mantissa + 1024.0, static_cast<int>(exponent) - 25)
                                 : std::ldexp(static_cast<double>(mantissa), -24);
    return bits_as<u32>(static_cast<float>(half >> 15 ? -size : size));
  });
}

}  // namespace perfassert
