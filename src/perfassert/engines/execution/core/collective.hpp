// What lanes of a warp compute together: votes, shuffles, matches, reductions; as `collective.py`.
#pragma once
#include "lanes.hpp"

namespace perfassert {

inline void vote(const Op& op, const Row& row, const u32* truth, u32 (*out)[kWarp]) {
  u32 ballot = packed(truth) & row.mask;
  bool all = ballot == row.mask, none = ballot == 0, holds = !none;
  if (op.detail[0] == kVoteAll) holds = all;
  else if (op.detail[0] == kVoteEqual) holds = all || none;
  for (int l = 0; l < kWarp; ++l) out[0][l] = ballot, out[1][l] = holds;
}

// Which lane each lane reads; `inside`: whether that is in range (PTX manual, `shfl.sync`).
inline void source_lanes(i64 mode, const u32* by, const u32* clamp, int* lanes, u32* inside) {
  for (int lane = 0; lane < kWarp; ++lane) {
    int step = by[lane] & 31, segment = (clamp[lane] >> 8) & 31;
    int last = (lane & segment) | (clamp[lane] & 31 & ~segment), source;
    if (mode == kShuffleUp) source = lane - step;
    else if (mode == kShuffleDown) source = lane + step;
    else if (mode == kButterfly) source = lane ^ step;
    else source = (lane & segment) | (step & ~segment);
    inside[lane] = mode == kShuffleUp ? source >= last : source <= last;
    lanes[lane] = inside[lane] ? source : lane;
  }
}

// Lanes that read an inactive one get what the hardware does not define: unknown.
inline void shuffle(const Op& op, const Row& row) {
  u32 warp = row.warp, marks[kWarp], moved[kWarp], out[2][kWarp];
  const u32 *values = op.sources[0].at(warp), *by = op.sources[1].at(warp), *clamp = op.sources[2].at(warp);
  int lanes[kWarp];
  source_lanes(op.detail[0], by, clamp, lanes, out[1]);
  if (!gather_marks(op.sources, 1, op.sources.size(), warp, marks)) std::memset(marks, 0, sizeof(marks));
  bool some = gather_marks(op.sources, 0, 1, warp, moved);
  u32 any = 0;
  for (int l = 0; l < kWarp; ++l) {
    out[0][l] = values[lanes[l]];
    if (!(row.mask >> lanes[l] & 1)) marks[l] |= kUntranslated;
    if (some) marks[l] |= moved[lanes[l]];
    any |= marks[l] & row.on[l];
  }
  for (std::size_t k = 0; k < op.targets.size() && k < 2; ++k)
    write(op.targets[k], row, out[k], any ? marks : nullptr);
}

inline void match(const Op& op, const Row& row, const u32* low, const u32* high, u32 (*out)[kWarp]) {
  for (int l = 0; l < kWarp; ++l) {
    u32 same = 0;
    for_lanes(row.mask, [&](int k) { same |= static_cast<u32>(low[k] == low[l] && high[k] == high[l]) << k; });
    bool everyone = op.detail[0] != 0, whole = same == row.mask;
    out[0][l] = !everyone || whole ? same : 0;
    out[1][l] = everyone && whole;
  }
}

inline u32 reduced(const Op& op, const Row& row, const u32* values) {
  i64 mode = op.detail[0];
  u32 flip = op.detail[1] ? 0x80000000u : 0, result = mode == kAnd ? kAll : 0;
  if (mode == kMin) result = kAll ^ flip;
  if (mode == kMax) result = flip;
  for_lanes(row.mask, [&](int l) {
    u32 value = values[l];
    switch (mode) {
      case kSum: result += value; break;
      case kMin: result = (value ^ flip) < (result ^ flip) ? value : result; break;
      case kMax: result = (value ^ flip) > (result ^ flip) ? value : result; break;
      case kAnd: result &= value; break;
      case kOr: result |= value; break;
      default: result ^= value;
    }
  });
  return result;
}

// What is known of a vote, a match, a reduction is known to all lanes or to none.
inline void together(const Op& op, const Row& row) {
  u32 marks[kWarp], out[2][kWarp], unknown = 0;
  if (gather_marks(op.sources, 0, op.sources.size(), row.warp, marks)) unknown = joined(marks, row.mask);
  const u32* a = op.sources.empty() ? nullptr : op.sources[0].at(row.warp);
  std::size_t results = 1;
  u32 word = row.mask;  // of kSyncSet
  if (op.kind == Kind::kFirst) word = a[first_lane(row.mask)];
  if (op.kind == Kind::kReduce) word = reduced(op, row, a);
  for (int l = 0; l < kWarp; ++l) out[0][l] = word;
  if (op.kind == Kind::kVote) vote(op, row, a, out), results = 2;
  if (op.kind == Kind::kMatch) match(op, row, a, op.sources[1].at(row.warp), out), results = 2;
  for (int l = 0; l < kWarp; ++l) marks[l] = unknown;
  for (std::size_t k = 0; k < op.targets.size() && k < results; ++k)
    write(op.targets[k], row, out[k], unknown ? marks : nullptr);
}

}  // namespace perfassert
