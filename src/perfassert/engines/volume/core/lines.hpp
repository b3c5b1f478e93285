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

// Of each row of addresses, moved by each offset: what is distinct, and cycles of the tag stage for
// each base address in every so many rows.
struct RowCounts {
  i64 rows, lanes;
  const i64* addresses;
  i64 offsets;
  const i64* offset;
  i64 pieces;  // sectors that an item touches, one after the other
  i64 sector, line, page;
  i64 shifts;
  const i64* shift;
  i64 every, banks, lines_hashed;
  const i64* hashes;

  // `out`: places, sectors, lines, and pages beyond the first, each of all rows; `tags`: by base address.
  void write(i64* out, i64* tags) const {
    const i64 count = rows * offsets, looked_up = (rows + every - 1) / every * offsets;
    const Divisor by_sector(sector), by_page(page);
    TagStage stage{Divisor(line), Fullest(banks), lines_hashed - 1, hashes};
    std::vector<i64> sorted(lanes), moved(lanes), touched(lanes * pieces);
    for (i64 row = 0; row < rows; ++row) {
      std::copy_n(addresses + row * lanes, lanes, sorted.begin());
      if (!std::is_sorted(sorted.begin(), sorted.end())) std::sort(sorted.begin(), sorted.end());
      for (i64 o = 0; o < offsets; ++o) {
        i64* own = out + row * offsets + o;
        for (i64 lane = 0; lane < lanes; ++lane) moved[lane] = sorted[lane] + offset[o];
        own[0] = distinct(moved, Divisor(1));
        own[count] = distinct(pieces > 1 ? in_pieces(moved, touched) : moved, by_sector);
        own[2 * count] = stage.look_up(moved);
        own[3 * count] = distinct(moved, by_page) - 1;
        if (row % every) continue;
        for (i64 s = 0; s < shifts; ++s) tags[s * looked_up + row / every * offsets + o] = stage.cycles(moved, shift[s]);
      }
    }
  }

 private:
  struct TagStage {
    Divisor by_line;
    Fullest fullest;
    i64 mask;
    const i64* hashes;
    std::vector<i64> lines = {};

    // The number of distinct lines, which are kept.
    i64 look_up(const std::vector<i64>& ordered) {
      lines.clear();
      for (i64 address : ordered) {
        i64 number = by_line.divide(address);
        if (lines.empty() || lines.back() != number) lines.push_back(number);
      }
      return (i64)lines.size();
    }
    // For a base address; most of them are whole lines, which need no division.
    i64 cycles(const std::vector<i64>& ordered, i64 base) {
      const i64 whole = by_line.divide(base);
      fullest.begin();
      if (whole * by_line.value == base) {
        for (i64 number : lines) fullest.add(hashes[(number + whole) & mask]);
        return fullest.most;
      }
      i64 before = 0;
      for (size_t i = 0; i < ordered.size(); ++i) {
        i64 number = by_line.divide(ordered[i] + base);
        if (!i || number != before) fullest.add(hashes[number & mask]);
        before = number;
      }
      return fullest.most;
    }
  };

  static i64 distinct(const std::vector<i64>& ordered, const Divisor& by) {
    i64 count = 0;
    for (size_t i = 0; i < ordered.size(); ++i) count += !i || by.divide(ordered[i]) != by.divide(ordered[i - 1]);
    return count;
  }
  const std::vector<i64>& in_pieces(const std::vector<i64>& ordered, std::vector<i64>& touched) const {
    for (i64 lane = 0; lane < lanes; ++lane)
      for (i64 p = 0; p < pieces; ++p) touched[lane * pieces + p] = ordered[lane] + p * sector;
    std::sort(touched.begin(), touched.end());
    return touched;
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
