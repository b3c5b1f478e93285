// Where the lanes of every warp are, and in which order warps run; as `warps.py`, whose order it
// follows to the letter.
#pragma once
#include <algorithm>

#include "lanes.hpp"

namespace perfassert {

constexpr int kTurn = 64;  // every so many runs the lowest place is passed over
constexpr i64 kNowhere = INT64_MAX;

// Lanes of a warp at one place; `sync`: the convergence barrier that they wait at, none for `mask`.
struct Fragment {
  i64 place;
  u32 lanes;
  const Operand* sync = nullptr;
  u32 mask = 0;
};

struct Waiting {
  u32 warp;
  Fragment fragment;
};

// What the threads of one arrival contribute to a barrier that reduces.
struct Part {
  i64 holds, asked;
  u32 unknown;
};

// A barrier of a block: who waits there, and what they contribute.
struct Gathering {
  u32 barrier = 0;
  i64 arrived = 0, count = 0;
  std::vector<Waiting> waiting;
  std::vector<Part> parts;
};

// Which warps are at which place.
class Index {
 public:
  Index(std::size_t places, std::size_t warps) : width_((warps + 63) / 64), bits_(places * width_), occupied_(places / 64 + 1), some_(places) {}

  void add(i64 place, u32 warp) {
    if (place == kNowhere) return;
    at(place)[warp >> 6] |= u64{1} << (warp & 63);
    if (!some_[static_cast<std::size_t>(place)]++) occupied_[static_cast<std::size_t>(place) >> 6] |= bit(place);
  }
  void remove(i64 place, u32 warp) {
    if (place == kNowhere) return;
    at(place)[warp >> 6] &= ~(u64{1} << (warp & 63));
    if (!--some_[static_cast<std::size_t>(place)]) occupied_[static_cast<std::size_t>(place) >> 6] &= ~bit(place);
  }
  // The first place from `from` on where anybody is.
  i64 next(i64 from) const {
    std::size_t word = static_cast<std::size_t>(from) >> 6;
    if (word >= occupied_.size()) return kNowhere;
    u64 left = occupied_[word] & (~u64{0} << (from & 63));
    while (!left) {
      if (++word >= occupied_.size()) return kNowhere;
      left = occupied_[word];
    }
    return static_cast<i64>(word * 64) + __builtin_ctzll(left);
  }
  i64 places() const {
    i64 count = 0;
    for (u64 word : occupied_) count += __builtin_popcountll(word);
    return count;
  }
  void warps(i64 place, std::vector<u32>& found) {
    found.clear();
    for (std::size_t k = 0; k < width_; ++k)
      for (u64 left = at(place)[k]; left; left &= left - 1)
        found.push_back(static_cast<u32>(k * 64) + static_cast<u32>(__builtin_ctzll(left)));
  }

 private:
  u64* at(i64 place) { return bits_.data() + static_cast<std::size_t>(place) * width_; }
  static u64 bit(i64 place) { return u64{1} << (place & 63); }

  std::size_t width_;
  std::vector<u64> bits_, occupied_;
  std::vector<u32> some_;
};

class Warps {
 public:
  std::vector<i64> place;
  std::vector<u32> active, alive;
  std::vector<std::vector<Fragment>> pending, blocked;
  std::vector<u8> forced;  // instructions whose waiting lanes were let go on without the others

  Warps(const u32* threads, std::size_t warps, std::size_t per_block, std::size_t places)
      : place(warps, kNowhere), active(threads, threads + warps), alive(active), pending(warps), blocked(warps),
        forced(places + 2), per_block_(per_block), at_barrier_(warps), alive_in_(warps / per_block),
        gatherings_(warps / per_block), index_(places + 2, warps) {
    for (u32 w = 0; w < warps; ++w) {
      alive_in_[block(w)] += count_lanes(alive[w]);
      if (alive[w]) go(w, 0);
    }
  }

  std::size_t block(u32 warp) const { return warp / per_block_; }

  void go(u32 warp, i64 to) {
    if (place[warp] == to) return;
    index_.remove(place[warp], warp);
    index_.add(place[warp] = to, warp);
  }

  // A place, the warps there, and the place before which they must stop to be joined.
  i64 choose(std::vector<u32>& warps, i64& stop) {
    ++runs_;
    i64 lowest = index_.next(0);
    if (lowest == kNowhere) return lowest;
    if (runs_ % kTurn == 0)
      for (i64 skip = runs_ / kTurn % index_.places(); skip > 0; --skip) lowest = index_.next(lowest + 1);
    index_.warps(lowest, warps);
    stop = index_.next(lowest + 1);
    return lowest;
  }

  void branch(u32 warp, i64 at, i64 target, u32 taken) {
    u32 stay = active[warp] & ~taken;
    go(warp, taken ? target : at + 1);
    if (taken && stay) split(warp, {target, taken}, {at + 1, stay});
    else if (target <= at && taken && !pending[warp].empty() && runs_ % kTurn == 0) rotate(warp);
  }

  // Every active lane goes to a place of its own.
  void scatter(u32 warp, const i64* places) {
    std::vector<i64> distinct;
    for_lanes(active[warp], [&](int l) { distinct.push_back(places[l]); });
    std::sort(distinct.rbegin(), distinct.rend());
    distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
    for (i64 to : distinct) {
      u32 lanes = 0;
      for_lanes(active[warp], [&](int l) { lanes |= static_cast<u32>(places[l] == to) << l; });
      pending[warp].push_back({to, lanes});
    }
    next(warp);
  }

  // Another fragment of the warp has its turn.
  void rotate(u32 warp) {
    if (pending[warp].empty()) return;
    pending[warp].insert(pending[warp].begin(), {place[warp], active[warp]});
    next(warp);
  }

  // `lanes` of each warp end; others go on behind `at`.
  void leave(const std::vector<u32>& warps, i64 at, const std::vector<u32>& lanes) {
    for (std::size_t n = 0; n < warps.size(); ++n) {
      kill(warps[n], lanes[n]);
      active[warps[n]] &= ~lanes[n];
      go(warps[n], at + 1);
    }
    for (std::size_t n = 0; n < warps.size(); ++n)
      if (lanes[n] && !blocked[warps[n]].empty()) release(warps[n]);
    for (u32 warp : warps)
      if (!active[warp]) next(warp);
    open_blocks(warps);
  }

  // The running fragment waits for others of its warp, with those that wait there.
  void wait(u32 warp, const Fragment& fragment) {
    auto& list = blocked[warp];
    auto same = [&](const Fragment& f) { return f.place == fragment.place && f.sync == fragment.sync; };
    std::size_t n = static_cast<std::size_t>(std::find_if(list.begin(), list.end(), same) - list.begin());
    if (n < list.size()) list[n].lanes |= fragment.lanes;
    else list.push_back(fragment);
    go(warp, kNowhere);
    join(warp, n);
    if (place[warp] == kNowhere) next(warp);
  }

  // Let go on whose barrier has become complete.
  void release(u32 warp) {
    for (std::size_t n = 0; n < blocked[warp].size();)
      if (!join(warp, n)) ++n;
  }

  // The running fragment arrives at a barrier of its block; `count`: threads, 0: all.
  void arrive(u32 warp, u32 barrier, u32 count, const Fragment& fragment, bool waits) {
    Gathering& at = gathering(warp, barrier);
    bool whole = fragment.lanes == alive[warp];
    at.arrived += count && whole ? kWarp : count_lanes(fragment.lanes);
    at.count = count;
    if (waits) {
      at.waiting.push_back({warp, fragment});
      ++at_barrier_[warp];
      go(warp, kNowhere);
      next(warp);
    } else {
      go(warp, fragment.place);
    }
    opened(block(warp));
  }

  Gathering& gathering(u32 warp, u32 barrier) {
    auto& list = gatherings_[block(warp)];
    for (auto& g : list)
      if (g.barrier == barrier) return g;
    list.emplace_back();
    list.back().barrier = barrier;
    return list.back();
  }

  // All threads of these warps' blocks are here, and only they: all go on.
  bool pass_barrier(const std::vector<u32>& warps, i64 to) {
    i64 missing = 0;
    std::size_t last = SIZE_MAX;
    for (u32 warp : warps) {
      if (block(warp) != last) {
        last = block(warp);
        if (!gatherings_[last].empty()) return false;
        missing += alive_in_[last];
      }
      missing -= count_lanes(active[warp]);
    }
    if (missing) return false;
    for (u32 warp : warps) go(warp, to);
    return true;
  }

  // Nobody can run: open the barriers that never fill up; whether that helped.
  bool unlock() {
    bool helped = false;
    for (auto& list : gatherings_)
      for (std::size_t n = 0; n < list.size();) {
        if (list[n].waiting.empty()) {
          ++n;
          continue;
        }
        helped = true;
        for (auto& w : list[n].waiting) forced[static_cast<std::size_t>(w.fragment.place - 1)] = 1;
        open(list, n);
      }
    return helped;
  }

  // These warps end.
  void stop(const std::vector<u32>& warps) {
    for (u32 warp : warps) {
      kill(warp, kAll);
      active[warp] = 0;
      go(warp, kNowhere);
      pending[warp].clear();
      blocked[warp].clear();
    }
    open_blocks(warps);
  }

 private:
  void kill(u32 warp, u32 lanes) {
    alive_in_[block(warp)] -= count_lanes(alive[warp] & lanes);
    alive[warp] &= ~lanes;
  }

  void split(u32 warp, Fragment low, Fragment high) {
    if (high.place < low.place) std::swap(low, high);
    go(warp, low.place);
    active[warp] = low.lanes;
    pending[warp].push_back(high);
  }

  // The warp's running fragment has gone; take another one.
  void next(u32 warp) {
    auto& list = pending[warp];
    if (list.empty() && !blocked[warp].empty() && !at_barrier_[warp]) force(warp);
    go(warp, list.empty() ? kNowhere : list.back().place);
    active[warp] = list.empty() ? 0 : list.back().lanes;
    if (!list.empty()) list.pop_back();
  }

  // Nobody is left to wait for: the lanes that wait at the lowest place go on together.
  void force(u32 warp) {
    auto& list = blocked[warp];
    i64 lowest = kNowhere;
    for (auto& f : list) lowest = std::min(lowest, f.place);
    forced[static_cast<std::size_t>(lowest - 1)] = 1;
    u32 lanes = 0;
    std::vector<Fragment> left;
    for (auto& f : list) {
      if (f.place == lowest) lanes |= f.lanes;
      else left.push_back(f);
    }
    list = left;
    pending[warp].push_back({lowest, lanes});
  }

  // Whether a waiting fragment had nobody to wait for, and was let go on.
  bool join(u32 warp, std::size_t n) {
    Fragment fragment = blocked[warp][n];
    u32 mask = fragment.sync ? fragment.sync->at(warp)[first_lane(fragment.lanes)] : fragment.mask;
    if (mask & alive[warp] & ~fragment.lanes) return false;
    blocked[warp].erase(blocked[warp].begin() + static_cast<std::ptrdiff_t>(n));
    if (fragment.lanes & alive[warp]) resume(warp, {fragment.place, fragment.lanes & alive[warp]});
    return true;
  }

  void resume(u32 warp, const Fragment& fragment) {
    if (place[warp] != kNowhere) {
      pending[warp].push_back(fragment);
      return;
    }
    go(warp, fragment.place);
    active[warp] = fragment.lanes;
  }

  void open_blocks(const std::vector<u32>& warps) {
    std::size_t last = SIZE_MAX;
    for (u32 warp : warps) {
      if (block(warp) == last) continue;
      last = block(warp);
      opened(last);
    }
  }

  // Let go on who waits at a barrier that is complete.
  void opened(std::size_t block) {
    auto& list = gatherings_[block];
    for (std::size_t n = 0; n < list.size();) {
      i64 expected = list[n].count ? list[n].count : alive_in_[block];
      if (list[n].arrived && list[n].arrived >= expected) open(list, n);
      else ++n;
    }
  }

  void open(std::vector<Gathering>& list, std::size_t n) {
    Gathering full = std::move(list[n]);
    list.erase(list.begin() + static_cast<std::ptrdiff_t>(n));
    for (auto& w : full.waiting) {
      --at_barrier_[w.warp];
      resume(w.warp, w.fragment);
    }
  }

  std::size_t per_block_;
  std::vector<i64> at_barrier_, alive_in_;
  std::vector<std::vector<Gathering>> gatherings_;
  Index index_;
  i64 runs_ = 0;
};

}  // namespace perfassert
