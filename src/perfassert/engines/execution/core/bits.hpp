// Operations on bits and bytes of words; as `words.py`.
#pragma once
#include "integer.hpp"

namespace perfassert {

inline void permute(const Op&, Sources s, Results out) {
  each(out[0], [=](int l) {
    u64 source = wide(s[0][l], s[2][l]);
    u32 result = 0;
    for (int byte = 0; byte < 4; ++byte) {
      u32 nibble = (s[1][l] >> (4 * byte)) & 15;
      u32 chosen = static_cast<u32>(source >> ((nibble & 7) * 8)) & 0xFF;
      if (nibble & 8) chosen = chosen & 0x80 ? 0xFF : 0;
      result |= chosen << (8 * byte);
    }
    return result;
  });
}

inline void count_bits(const Op&, Sources s, Results out) {
  each(out[0], [=](int l) { return static_cast<u32>(__builtin_popcount(s[0][l])); });
}

inline void find_bit(const Op& op, Sources s, Results out) {
  bool is_signed = op.detail[0] != 0, from_left = op.detail[1] != 0;
  each(out[0], [=](int l) {
    u32 value = is_signed && s[0][l] >> 31 ? ~s[0][l] : s[0][l];
    if (!value) return kAll;
    u32 zeros = static_cast<u32>(__builtin_clz(value));
    return from_left ? zeros : 31 - zeros;
  });
}

inline void reverse_bits(const Op&, Sources s, Results out) {
  each(out[0], [=](int l) {
    u32 a = s[0][l];
    a = ((a >> 1) & 0x55555555u) | ((a & 0x55555555u) << 1);
    a = ((a >> 2) & 0x33333333u) | ((a & 0x33333333u) << 2);
    a = ((a >> 4) & 0x0F0F0F0Fu) | ((a & 0x0F0F0F0Fu) << 4);
    a = ((a >> 8) & 0x00FF00FFu) | ((a & 0x00FF00FFu) << 8);
    return (a >> 16) | (a << 16);
  });
}

inline u32 clamped(u32 value, bool wrap) { return wrap ? value & 31 : (value < 32 ? value : 32); }

inline void bit_field(const Op& op, Sources s, Results out) {
  bool wrap = op.detail[0] != 0;
  each(out[0], [=](int l) {
    u64 ones = (u64{1} << clamped(s[1][l], wrap)) - 1;
    return static_cast<u32>(ones << clamped(s[0][l], wrap));
  });
}

inline void extend(const Op& op, Sources s, Results out) {
  bool is_signed = op.detail[0] != 0, wrap = op.detail[1] != 0;
  each(out[0], [=](int l) {
    u32 bits = clamped(s[1][l], wrap);
    u64 ones = (u64{1} << bits) - 1, kept = s[0][l] & ones;
    if (is_signed && bits && kept >> (bits - 1) & 1) kept |= ~ones;
    return static_cast<u32>(kept);
  });
}

inline void dot(const Op& op, Sources s, Results out) {
  u32 first = op.detail[0] ? 0x80 : 0, second = op.detail[1] ? 0x80 : 0;
  each(out[0], [=](int l) {
    u32 total = s[2][l];
    for (int byte = 0; byte < 4; ++byte) {
      u32 a = (s[0][l] >> (8 * byte)) & 0xFF, b = (s[1][l] >> (8 * byte)) & 0xFF;
      total += (a - ((a & first) << 1)) * (b - ((b & second) << 1));
    }
    return total;
  });
}

inline void absolute(const Op&, Sources s, Results out) {
  each(out[0], [=](int l) { return s[0][l] >> 31 ? 0u - s[0][l] : s[0][l]; });
}

}  // namespace perfassert
