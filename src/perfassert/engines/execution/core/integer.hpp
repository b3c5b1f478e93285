// What each kind of integer operation computes on the 32 words of a warp; as `words.py`.
#pragma once
#include "lanes.hpp"

namespace perfassert {

using Sources = const u32* const*;
using Results = u32 (*)[kWarp];

template <class F>
inline void each(u32* __restrict out, F f) {
  for (int l = 0; l < kWarp; ++l) out[l] = f(l);
}

inline u64 wide(u32 low, u32 high) { return low | static_cast<u64>(high) << 32; }

inline void halves(u64 value, Results out, int l) {
  out[0][l] = static_cast<u32>(value);
  out[1][l] = static_cast<u32>(value >> 32);
}

inline void move(const Op&, Sources s, Results out) { copy(out[0], s[0]); }

inline void add(const Op& op, Sources s, Results out) {
  i64 negated = op.detail.empty() ? 0 : op.detail[0];
  if (op.sources.size() == 3 && !negated) {
    each(out[0], [=](int l) { return s[0][l] + s[1][l] + s[2][l]; });
    return;
  }
  u32* __restrict total = out[0];
  std::memset(total, 0, sizeof(out[0]));
  for (std::size_t i = 0; i < op.sources.size(); ++i) {
    if (!op.numbers[i]) continue;
    const u32* more = s[i];
    if (negated >> i & 1)
      for (int l = 0; l < kWarp; ++l) total[l] -= more[l];
    else
      for (int l = 0; l < kWarp; ++l) total[l] += more[l];
  }
}

inline void add_carries(const Op& op, Sources s, Results out) {
  i64 negated = op.detail.empty() ? 0 : op.detail[0];
  for (int l = 0; l < kWarp; ++l) {
    u64 total = 0;
    for (std::size_t i = 0; i < op.sources.size(); ++i)
      total += negated >> i & 1 ? (u64{1} << 32) - s[i][l] : s[i][l];
    out[0][l] = static_cast<u32>(total);
    out[1][l] = total >> 32 >= 1;
    out[2][l] = total >> 32 >= 2;
  }
}

inline void multiply(const Op& op, Sources s, Results out) {
  if (op.numbers[3]) each(out[0], [=](int l) { return s[0][l] * s[1][l] + s[2][l] + s[3][l]; });
  else each(out[0], [=](int l) { return s[0][l] * s[1][l] + s[2][l]; });
}

inline void multiply_wide(const Op& op, Sources s, Results out) {
  bool is_signed = op.detail[0] != 0;
  for (int l = 0; l < kWarp; ++l) {
    u64 product = is_signed ? static_cast<u64>(static_cast<i64>(static_cast<i32>(s[0][l])) *
                                               static_cast<i32>(s[1][l]))
                            : static_cast<u64>(s[0][l]) * s[1][l];
    u64 total = product + wide(s[2][l], s[3][l]);
    u64 result = total + s[4][l];
    halves(result, out, l);
    out[2][l] = (total < product) | (result < total);
  }
}

// A function of two words by its table of four bits.
inline void pair_logic(unsigned table, const u32* b, const u32* c, u32* out) {
  switch (table) {
    case 0x0: return each(out, [=](int) { return 0u; });
    case 0x1: return each(out, [=](int l) { return ~(b[l] | c[l]); });
    case 0x2: return each(out, [=](int l) { return ~b[l] & c[l]; });
    case 0x3: return each(out, [=](int l) { return ~b[l]; });
    case 0x4: return each(out, [=](int l) { return b[l] & ~c[l]; });
    case 0x5: return each(out, [=](int l) { return ~c[l]; });
    case 0x6: return each(out, [=](int l) { return b[l] ^ c[l]; });
    case 0x7: return each(out, [=](int l) { return ~(b[l] & c[l]); });
    case 0x8: return each(out, [=](int l) { return b[l] & c[l]; });
    case 0x9: return each(out, [=](int l) { return ~(b[l] ^ c[l]); });
    case 0xA: return each(out, [=](int l) { return c[l]; });
    case 0xB: return each(out, [=](int l) { return ~b[l] | c[l]; });
    case 0xC: return each(out, [=](int l) { return b[l]; });
    case 0xD: return each(out, [=](int l) { return b[l] | ~c[l]; });
    case 0xE: return each(out, [=](int l) { return b[l] | c[l]; });
    default: return each(out, [=](int) { return kAll; });
  }
}

// Shannon's expansion in the first operand.
inline void logic(const Op& op, Sources s, Results out) {
  unsigned zero = op.detail[0] & 15, one = static_cast<unsigned>(op.detail[0]) >> 4;
  u32 when_zero[kWarp], when_one[kWarp];
  pair_logic(one, s[1], s[2], zero == one ? out[0] : when_one);
  if (zero == one) return;
  pair_logic(zero, s[1], s[2], when_zero);
  const u32* a = s[0];
  each(out[0], [&](int l) { return (a[l] & when_one[l]) | (~a[l] & when_zero[l]); });
}

inline u64 shifted(u64 value, u32 places, bool right, bool is_signed) {
  if (right && is_signed) return static_cast<u64>(static_cast<i64>(value) >> (places < 63 ? places : 63));
  if (places > 63) return 0;
  return right ? value >> places : value << places;
}

template <bool kRight, bool kSigned>
inline void shift_words(const Op& op, Sources s, u32* out) {
  bool wrap = op.detail[1] != 0;
  u32 bits = static_cast<u32>(op.detail[2]);
  int down = op.detail[4] ? 32 : 0;
  each(out, [=](int l) {
    u32 places = wrap ? s[1][l] & (bits - 1) : (s[1][l] < bits ? s[1][l] : bits);
    return static_cast<u32>(shifted(wide(s[0][l], s[2][l]), places, kRight, kSigned) >> down);
  });
}

inline void shift(const Op& op, Sources s, Results out) {
  if (!op.detail[0]) shift_words<false, false>(op, s, out[0]);
  else if (op.detail[3]) shift_words<true, true>(op, s, out[0]);
  else shift_words<true, false>(op, s, out[0]);
}

inline void select(const Op&, Sources s, Results out) {
  each(out[0], [=](int l) { return s[2][l] ? s[0][l] : s[1][l]; });
}

// `a(l)` relation `b(l)` for ordered operands.
template <class A, class B>
inline void related(i64 relation, u32* out, A a, B b) {
  switch (relation) {
    case kLT: return each(out, [=](int l) { return static_cast<u32>(a(l) < b(l)); });
    case kEQ: return each(out, [=](int l) { return static_cast<u32>(a(l) == b(l)); });
    case kLE: return each(out, [=](int l) { return static_cast<u32>(a(l) <= b(l)); });
    case kGT: return each(out, [=](int l) { return static_cast<u32>(a(l) > b(l)); });
    case kNE: return each(out, [=](int l) { return static_cast<u32>(a(l) != b(l)); });
    case kGE: return each(out, [=](int l) { return static_cast<u32>(a(l) >= b(l)); });
    default: return each(out, [=](int) { return static_cast<u32>(relation == kAlways); });
  }
}

inline void compare_as(i64 relation, bool is_signed, const u32* a, const u32* b, u32* out) {
  if (is_signed)
    related(relation, out, [=](int l) { return static_cast<i32>(a[l]); },
            [=](int l) { return static_cast<i32>(b[l]); });
  else related(relation, out, [=](int l) { return a[l]; }, [=](int l) { return b[l]; });
}

inline void compare(const Op& op, Sources s, Results out) {
  compare_as(op.detail[0], op.detail[1] != 0, s[0], s[1], out[0]);
}

// The high words decide unless they are equal; the third source is the low words' comparison.
inline void compare_extended(const Op& op, Sources s, Results out) {
  static const i64 strict[] = {kLT, kNever, kLT, kGT, kNE, kGT};
  u32 strictly[kWarp];
  compare_as(strict[op.detail[0]], op.detail[1] != 0, s[0], s[1], strictly);
  each(out[0], [&](int l) { return strictly[l] | ((s[0][l] == s[1][l]) & (s[2][l] != 0)); });
}

inline void compare_wide(const Op& op, Sources s, Results out) {
  auto a = [=](int l) { return wide(s[0][l], s[1][l]); };
  auto b = [=](int l) { return wide(s[2][l], s[3][l]); };
  if (op.detail[1])
    related(op.detail[0], out[0], [=](int l) { return static_cast<i64>(a(l)); },
            [=](int l) { return static_cast<i64>(b(l)); });
  else related(op.detail[0], out[0], a, b);
}

inline void decide(const Op& op, Sources s, Results out) {
  u32 table = static_cast<u32>(op.detail[0]);
  each(out[0], [=](int l) {
    u32 row = (s[0][l] << 2) | (s[1][l] << 1) | s[2][l];
    return row > 31 ? 0 : (table >> row) & 1;
  });
}

inline void minimum(const Op& op, Sources s, Results out) {
  bool is_signed = op.detail[0] != 0;
  u32 flip = is_signed ? 0x80000000u : 0;
  each(out[0], [=](int l) {
    bool below = (s[0][l] ^ flip) < (s[1][l] ^ flip);
    return below == (s[2][l] != 0) ? s[0][l] : s[1][l];
  });
}

}  // namespace perfassert
