// The lanes of one warp that execute an instruction together, and how they write registers.
#pragma once
#include <cstring>

#include "code.hpp"
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace perfassert {

constexpr u32 kUninitialised = 1u << 28, kUntranslated = 1u << 29, kLeftOut = 1u << 30, kOutside = 1u << 31;
constexpr u32 kConstantBit = 1u << 27;

inline int first_lane(u32 mask) { return mask ? __builtin_ctz(mask) : 0; }
inline int count_lanes(u32 mask) { return __builtin_popcount(mask); }

// Calls `f` for every lane in a mask, lowest first.
template <class F>
inline void for_lanes(u32 mask, F f) {
  for (; mask; mask &= mask - 1) f(__builtin_ctz(mask));
}

// A bit for each word that is not 0.
inline u32 packed(const u32* words) {
  u32 zeros = 0;
#if defined(__SSE2__)
  for (int k = 0; k < kWarp; k += 4) {
    __m128i four = _mm_loadu_si128(reinterpret_cast<const __m128i*>(words + k));
    __m128i none = _mm_cmpeq_epi32(four, _mm_setzero_si128());
    zeros |= static_cast<u32>(_mm_movemask_ps(_mm_castsi128_ps(none))) << k;
  }
#else
  for (int l = 0; l < kWarp; ++l) zeros |= static_cast<u32>(words[l] == 0) << l;
#endif
  return ~zeros;
}

// All ones for each bit of a mask that is set.
inline void unpacked(u32 mask, u32* words) {
  static constexpr u32 bit[kWarp] = {
      1u << 0,  1u << 1,  1u << 2,  1u << 3,  1u << 4,  1u << 5,  1u << 6,  1u << 7,  1u << 8,  1u << 9,  1u << 10,
      1u << 11, 1u << 12, 1u << 13, 1u << 14, 1u << 15, 1u << 16, 1u << 17, 1u << 18, 1u << 19, 1u << 20, 1u << 21,
      1u << 22, 1u << 23, 1u << 24, 1u << 25, 1u << 26, 1u << 27, 1u << 28, 1u << 29, 1u << 30, 1u << 31};
  for (int l = 0; l < kWarp; ++l) words[l] = mask & bit[l] ? kAll : 0;
}

// A warp in a run: `active` lanes, and `mask`, those whose guard holds; `on`: the mask as words.
struct Row {
  u32 warp, active, mask;
  const u32* on;
  u32 active_words[kWarp], guarded_words[kWarp];

  void start(u32 number, u32 lanes) {
    warp = number;
    active = lanes;
    unpacked(lanes, active_words);
    open();
  }
  void open() {
    mask = active;
    on = active_words;
  }
  void guard(const u32* words, u32 holds) {
    for (int l = 0; l < kWarp; ++l) guarded_words[l] = words[l] == holds ? active_words[l] : 0;
    mask = packed(guarded_words);
    on = guarded_words;
  }
};

// Four lanes at once, which every processor has registers for; loops over them become no calls.
typedef u32 Four __attribute__((vector_size(16), aligned(4), may_alias));
inline Four& four(u32* words, int k) { return reinterpret_cast<Four*>(words)[k]; }
inline const Four& four(const u32* words, int k) { return reinterpret_cast<const Four*>(words)[k]; }
constexpr int kFours = kWarp / 4;

inline void copy(u32* to, const u32* from) {
  for (int k = 0; k < kFours; ++k) four(to, k) = four(from, k);
}

inline void put(u32* to, const Row& row, const u32* from, bool uniform) {
  if (uniform) {
    Four word = Four{} + from[first_lane(row.mask)];
    for (int k = 0; k < kFours; ++k) four(to, k) = word;
  } else if (row.mask == kAll) {
    copy(to, from);
  } else {
    for (int k = 0; k < kFours; ++k) four(to, k) = (four(to, k) & ~four(row.on, k)) | (four(from, k) & four(row.on, k));
  }
}

// Writes the lanes of a row's mask; all lanes of a uniform register. No marks: known.
inline void write(const Operand& target, const Row& row, const u32* words, const u32* marks) {
  if (!target.words || !row.mask) return;
  put(target.at(row.warp), row, words, target.uniform);
  u8& some = target.some_at(row.warp);
  if (!marks && !some) return;
  static const u32 known[kWarp] = {};
  u32* held = target.marks_at(row.warp);
  put(held, row, marks ? marks : known, target.uniform);
  some = packed(held) != 0;
}

inline void write_all(const Operand& target, const Row& row, u32 word, u32 mark) {
  u32 words[kWarp], marks[kWarp];
  for (int l = 0; l < kWarp; ++l) words[l] = word, marks[l] = mark;
  write(target, row, words, mark ? marks : nullptr);
}

// Where unknown values of some sources come from; whether there are any. `marks` is written if so.
inline bool gather_marks(const std::vector<Operand>& sources, std::size_t from, std::size_t to, u32 warp,
                         u32* marks) {
  bool some = false;
  for (std::size_t i = from; i < to && i < sources.size(); ++i) {
    if (!sources[i].some_at(warp)) continue;
    const u32* more = sources[i].marks_at(warp);
    if (some)
      for (int k = 0; k < kFours; ++k) four(marks, k) |= four(more, k);
    else copy(marks, more);
    some = true;
  }
  return some;
}

// Of all lanes of a mask together.
inline u32 joined(const u32* marks, u32 mask) {
  u32 all = 0;
  for_lanes(mask, [&](int l) { all |= marks[l]; });
  return all;
}

}  // namespace perfassert
