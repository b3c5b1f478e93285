// Division that rounds down, as Python's.
#pragma once

#include "../../module.hpp"

namespace perfassert {

// Divides by one positive number again and again, without a division where that is a power of two.
struct Divisor {
  i64 value;
  int shift = -1;
  explicit Divisor(i64 v) : value(v) {
    if ((v & (v - 1)) == 0) shift = __builtin_ctzll((std::uint64_t)v);
  }
  i64 divide(i64 a) const { return shift >= 0 ? a >> shift : a / value - (a % value < 0); }
};

}  // namespace perfassert
