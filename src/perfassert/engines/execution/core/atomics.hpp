// What an atomic leaves in memory; as `atomics.py`.
#pragma once
#include "singles.hpp"

namespace perfassert {

template <class Word>
inline Word updated(int combine, bool is_signed, Word old, Word next, Word swap) {
  constexpr int top = 8 * static_cast<int>(sizeof(Word)) - 1;
  Word flip = is_signed ? Word{1} << top : 0;
  bool below = (old ^ flip) < (next ^ flip);
  switch (combine) {
    case kSum: return old + next;
    case kMin: return below ? old : next;
    case kMax: return below ? next : old;
    case kIncrement: return old >= next ? 0 : old + 1;
    case kDecrement: return old == 0 || old > next ? next : old - 1;
    case kAnd: return old & next;
    case kOr: return old | next;
    case kXor: return old ^ next;
    case kExchange: return next;
    case kSwap: return old == next ? swap : old;
    default: throw std::runtime_error("unknown atomic");
  }
}

inline u32 float_total(u32 old, u32 next) { return nearest_word(bits_as<float>(old) + bits_as<float>(next)); }

}  // namespace perfassert
