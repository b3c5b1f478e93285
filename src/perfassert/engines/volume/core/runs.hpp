// Sets of bytes as sorted, disjoint runs [start, end). runs.py says what they mean and when gaps
// between them may be closed.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "divisor.hpp"

namespace perfassert {

using Values = std::vector<i64>;

struct Runs { Values starts, ends; };

// Sorts what ascends piece by piece, as repetitions of sorted values do: neighbouring pieces are merged
// where they overlap.
inline void sort_pieces(Values& values) {
  std::vector<size_t> heads{0};  // of the pieces, and behind the last one
  for (size_t i = 1; i < values.size(); ++i)
    if (values[i] < values[i - 1]) heads.push_back(i);
  heads.push_back(values.size());
  while (heads.size() > 2) {
    size_t left = 0;
    for (size_t i = 0; i + 1 < heads.size(); i += 2) {
      const auto first = values.begin() + heads[i], middle = values.begin() + heads[i + 1];
      const auto end = values.begin() + heads[std::min(i + 2, heads.size() - 1)];
      if (middle < end)
        std::inplace_merge(std::upper_bound(first, middle, *middle), middle, std::lower_bound(middle, end, middle[-1]));
      heads[++left] = end - values.begin();
    }
    heads.resize(left + 1);
  }
}

// Of runs whose starts and ends ascend, each by itself.
inline void close_gaps(Runs& runs, i64 granularity) {
  size_t kept = 0;
  for (size_t i = 1; i < runs.starts.size(); ++i) {
    if (runs.starts[i] - runs.ends[i - 1] < granularity) continue;
    runs.ends[kept++] = runs.ends[i - 1];
    runs.starts[kept] = runs.starts[i];
  }
  if (runs.starts.empty()) return;
  runs.ends[kept++] = runs.ends.back();
  runs.starts.resize(kept);
  runs.ends.resize(kept);
}

inline void merge(Runs& runs, i64 granularity) {
  sort_pieces(runs.starts);
  sort_pieces(runs.ends);
  close_gaps(runs, granularity);
}

// The granules touched, as runs of granule numbers.
inline void to_granules(Runs& runs, i64 granularity) {
  const Divisor granule(granularity);
  for (i64& start : runs.starts) start = granule.divide(start);
  for (i64& end : runs.ends) end = -granule.divide(-end);
  close_gaps(runs, 1);
}

// Whether repeating the runs that far apart makes them longer instead of more.
inline bool absorbs(const Runs& runs, i64 stride, i64 granularity) {
  i64 shortest = runs.ends[0] - runs.starts[0];
  for (size_t i = 1; i < runs.starts.size(); ++i) shortest = std::min(shortest, runs.ends[i] - runs.starts[i]);
  return std::abs(stride) - shortest < granularity;
}

inline void append_shifted(Values& to, const Values& from, i64 shift) {
  for (i64 value : from) to.push_back(value + shift);
}

// So many would have to be told apart.
struct TooMany { i64 runs; };

// Of the shifts 0, stride, ... or of those that are given.
struct Repetition {
  i64 stride, times;
  const i64* shifts;
  i64 shift(i64 i) const { return shifts ? shifts[i] : stride * i; }
};

inline void repeat(Runs& runs, const Repetition& repetition, i64 granularity, i64 most) {
  const i64 stride = repetition.stride, last = repetition.times - 1;
  if (runs.starts.empty()) return;
  const bool longer = stride == 0 || absorbs(runs, stride, granularity);
  const i64 pieces = (i64)runs.starts.size() * repetition.times;
  if (!longer && pieces > most) throw TooMany{pieces};
  if (!repetition.shifts && (last == 0 || stride == 0)) return;
  if (!repetition.shifts && longer) {
    Values& moved = stride < 0 ? runs.starts : runs.ends;
    for (i64& value : moved) value += stride * last;
    close_gaps(runs, granularity);
    return;
  }
  Runs result;
  result.starts.reserve(pieces);
  result.ends.reserve(pieces);
  for (i64 n = 0; n <= last; ++n) {
    const i64 shift = repetition.shift(stride < 0 ? last - n : n);  // the lowest first
    append_shifted(result.starts, runs.starts, shift);
    append_shifted(result.ends, runs.ends, shift);
  }
  merge(result, granularity);
  runs = std::move(result);
}

}  // namespace perfassert
