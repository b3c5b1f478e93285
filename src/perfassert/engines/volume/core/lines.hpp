// What warps' addresses cost the stages of the L1 and of shared memory; warps.py says what they are.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "divisor.hpp"

namespace perfassert {

// The largest number of distinct values in one bank.
class Fullest {
 public:
  explicit Fullest(i64 banks) : counts(banks) {}
  void begin() { std::fill(counts.begin(), counts.end(), 0); most = 0; }
  void add(i64 bank) { most = std::max(most, ++counts[bank]); }
  i64 most = 0;

 private:
  std::vector<i64> counts;
};

// Per row of sorted addresses and base address: cycles of the tag stage.
struct TagStage {
  i64 rows, lanes, line;
  const i64* addresses;
  i64 shifts;
  const i64* shift;
  i64 banks, lines_hashed;
  const i64* hashes;

  void write(i64* out) const {
    Fullest fullest(banks);
    const Divisor by_line(line);
    for (i64 s = 0; s < shifts; ++s)
      for (i64 row = 0; row < rows; ++row) {
        const i64* at = addresses + row * lanes;
        fullest.begin();
        for (i64 lane = 0, before = 0; lane < lanes; ++lane) {
          i64 number = by_line.divide(at[lane] + shift[s]);
          if (!lane || number != before) fullest.add(hashes[number & (lines_hashed - 1)]);
          before = number;
        }
        *out++ = fullest.most;
      }
  }
};

// Per warp: wavefronts of passes of so many lanes each over the banks.
struct DataStage {
  i64 warps, lanes, pass, unit, banks;
  const i64* addresses;
  const std::uint8_t* active;

  void write(i64* out) const {
    Fullest fullest(banks);
    const Divisor by_unit(unit), by_banks(banks);
    std::vector<i64> items;
    for (i64 warp = 0; warp < warps; ++warp) {
      out[warp] = 0;
      for (i64 first = warp * lanes; first < (warp + 1) * lanes; first += pass) {
        items.clear();
        for (i64 lane = first; lane < first + pass; ++lane)
          if (active[lane]) items.push_back(by_unit.divide(addresses[lane]));
        if (!std::is_sorted(items.begin(), items.end())) std::sort(items.begin(), items.end());
        fullest.begin();
        for (size_t i = 0; i < items.size(); ++i)
          if (!i || items[i] != items[i - 1]) fullest.add(items[i] - by_banks.divide(items[i]) * banks);
        out[warp] += fullest.most;
      }
    }
  }
};

}  // namespace perfassert
