// What memory operations touched, kept small: most warps go to places that are equally far apart.
#pragma once
#include "lanes.hpp"

namespace perfassert {

// All executions of a memory operation: a row for each warp and time. Lane l of a regular row is at
// `starts + l · steps`; the addresses of others follow one another in `irregular`.
struct Touches {
  static constexpr i64 kIrregular = INT64_MIN;
  i64 place = 0, part = 0, guessed = 0;
  std::vector<u32> warps, lanes;
  std::vector<u64> starts, irregular;
  std::vector<i64> steps;

  void add(u32 warp, u32 known, const u64* address) {
    int first = first_lane(known), second = first_lane(known & (known - 1));
    u64 step = known & (known - 1) ? address[second] - address[first] : 0;
    if (second > first + 1) step = static_cast<u64>(static_cast<i64>(step) / (second - first));
    u64 start = known ? address[first] - static_cast<u64>(first) * step : 0;
    bool even = regular(known, address, start, step);
    warps.push_back(warp);
    lanes.push_back(known);
    starts.push_back(even ? start : 0);
    steps.push_back(even ? static_cast<i64>(step) : kIrregular);
    if (even) return;
    std::size_t at = irregular.size();
    irregular.resize(at + kWarp);
    for_lanes(known, [&](int l) { irregular[at + static_cast<std::size_t>(l)] = address[l]; });
  }

 private:
  static bool regular(u32 known, const u64* address, u64 start, u64 step) {
    u64 wrong = 0;
    if (known == kAll)
      for (int l = 1; l < kWarp; ++l) wrong |= (address[l] - address[l - 1]) ^ step;
    else
      for_lanes(known, [&](int l) { wrong |= address[l] ^ (start + static_cast<u64>(l) * step); });
    return wrong == 0;
  }
};

}  // namespace perfassert
