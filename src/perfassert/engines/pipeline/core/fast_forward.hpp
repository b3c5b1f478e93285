// The event loop, and how whole periods are found and skipped.
#pragma once

#include <unordered_map>
#include <utility>

#include "channels.hpp"
#include "listeners.hpp"

namespace perfassert {

struct Slot {
  bool live = false;
  i64 number = 0, arrived = 0, unfinished = 0, end = kNever;
  Channels channels;
};

// Watches for interrupts and, where there is a limit, for its half and its end.
struct Watch {
  i64 limit, next_poll = 1 << 20, next = 0;
  bool half = false;
  // Whether to stop now.
  template <class Heard> bool over(i64 simulated, i64 now, const Heard& heard, Result& result) {
    if (simulated < next) return false;
    bool stop = look(simulated, now, heard, result);
    next = std::min(next_poll, !limit ? next_poll : half ? limit : limit / 2);
    return stop;
  }

 private:
  template <class Heard> bool look(i64 simulated, i64 now, const Heard& heard, Result& result) {
    if (simulated >= next_poll) {
      next_poll = simulated + (1 << 20);
      PyGILState_STATE held = PyGILState_Ensure();  // which the caller has given away
      bool interrupted = PyErr_CheckSignals() != 0;
      PyGILState_Release(held);
      if (interrupted) throw std::runtime_error("interrupted");
    }
    if (!limit) return false;
    if (!half && simulated >= limit / 2) {
      half = true;
      result.half_time = now;
      result.half_count = heard.instructions();
    }
    result.cut_short = simulated >= limit;
    return result.cut_short;
  }
};

// States seen so far, found again by a hash of what must be equal. When they take too much room
// the oldest half is forgotten, so that a period is found in the end wherever there is one.
constexpr size_t kRoom = size_t{64} << 20;  // bytes

template <class State> struct Detector {
  std::vector<State> seen;
  std::unordered_multimap<std::uint64_t, size_t> index;
  void reset() { seen.clear(); index.clear(); }
  // Try to skip with a state that was equal; `skip` returns whether it did.
  template <class Skip> bool found(std::uint64_t hash, Skip skip) {
    auto range = index.equal_range(hash);
    for (auto at = range.first; at != range.second; ++at)
      if (skip(seen[at->second])) return true;
    return false;
  }
  void remember(std::uint64_t hash, const State& state, size_t bytes) {
    if ((seen.size() + 1) * bytes > kRoom && !seen.empty()) {
      size_t dropped = (seen.size() + 1) / 2;
      seen.erase(seen.begin(), seen.begin() + (std::ptrdiff_t)dropped);
      std::unordered_multimap<std::uint64_t, size_t> kept;
      for (auto& entry : index)
        if (entry.second >= dropped) kept.emplace(entry.first, entry.second - dropped);
      index = std::move(kept);
    }
    index.emplace(hash, seen.size());
    seen.push_back(state);
  }
};

struct Hash {
  std::uint64_t value = 1469598103934665603ull;
  void add(i64 x) {
    value ^= (std::uint64_t)x + 0x9e3779b97f4a7c15ull + (value << 6) + (value >> 2);
    value *= 0xff51afd7ed558ccdull;
    value ^= value >> 32;
  }
};

// Chosen without a branch, for conditions that nobody can foresee.
inline i64 either(bool first, i64 a, i64 b) { return b ^ ((a ^ b) & -(i64)first); }

inline i64 clip(i64 t, i64 now) { return t > now ? t - now : 0; }

// The part of the state that both engines have; what the listeners have heard is part of it.
template <class Heard> struct UnitState {
  explicit UnitState(const Unit& u) : heard(u) {}
  i64 now = 0, launched = 0, live_warps = 0;
  std::vector<Slot> slots;
  std::vector<i64> free_at, last_served, used, used_at;
  std::vector<i64> by_age;  // live slots, oldest block first
  Heard heard;
};

// Ticks of a cycle, of which there are nearly always a power of two: then nothing is divided.
struct Cycle {
  i64 ticks, mask;
  explicit Cycle(i64 n) : ticks(n), mask(n & (n - 1) ? -1 : n - 1) {}
  i64 past(i64 t) const { return mask >= 0 ? t & mask : t % ticks; }
  bool begins(i64 t) const { return past(t) == 0; }
  i64 up(i64 t) const { return mask >= 0 ? (t + mask) & ~mask : (t + ticks - 1) / ticks * ticks; }
};

// The event loop and fast-forward, common to both engines. `Self` launches, retires, issues, says
// when the next event is, and compares and shifts its own state.
template <class Self, class State> class Engine {
 public:
  explicit Engine(const Unit& unit, i64 served) : u(unit), cycle(unit.ticks), s(unit) {
    s.slots.resize(u.resident);
    s.free_at.assign(u.copies, 0);
    s.last_served.assign(served, -1);
    s.used.assign(u.schedulers, 0);
    s.used_at.assign(u.schedulers, -1);
    for (i64 w = u.warps; w-- > 0;)
      for (auto& chain : u.programs[u.variant[w]].chains)
        if ((i64)chain.size() >= depth) { depth = (i64)chain.size(); anchor = w; }
    loops.resize(depth);
  }

  Result run() {
    for (i64 i = 0; i < u.resident && i < u.blocks; ++i) self().launch(i);
    Watch watch{u.limit};
    while (true) {
      self().retire();
      if (s.by_age.empty()) break;
      self().issue_all();
      if (u.fast_forward) detect();
      if (watch.over(simulated, s.now, s.heard, result)) break;
      i64 next = self().next_time();
      if (next == kNever) {  // there must be a block that is complete (one without instructions)
        if (!self().complete_now()) throw Deadlock{self().waiting_node()};
        continue;
      }
      tell(Elapsed{next - s.now, s.live_warps, self().drained_warps()});
      self().advance_to(next);
    }
    result.end = s.now;
    for (i64 pipe = 0; pipe < u.pipes && !result.cut_short; ++pipe)
      if (u.depth[pipe] < 0) result.end = std::max(result.end, s.free_at[u.copy[pipe][0]]);
    result.instructions = s.heard.instructions();
    result.simulated = simulated;
    s.heard.report(u, result.heard);
    return result;
  }

 protected:
  const Unit& u;
  const Cycle cycle;
  State s;
  Result result;
  i64 simulated = 0, depth = 0, anchor = 0;  // anchor: the warp of a block whose loops are watched
  i64 flagged_depth = -1;                    // a loop so deep has come to its next iteration
  bool flagged_grid = false;                 // a block has been retired

  template <class Event> void tell(const Event& event) { s.heard.on(event); }

  void flag(i64 level) { flagged_depth = flagged_depth < 0 ? level : std::min(level, flagged_depth); }

  bool has_slot(i64 sched) {
    if (!u.width) return true;
    if (!cycle.begins(s.now)) return false;
    if (s.used_at[sched] != s.now) { s.used_at[sched] = s.now; s.used[sched] = 0; }
    return s.used[sched] < u.width;
  }

  // An instruction that is issued now occupies its pipeline for some ticks.
  void occupy(i64& free, i64 runs_on, i64 ticks) { free = either(s.now - free < runs_on, free, s.now) + ticks; }

  // How far a pipeline is from standing still at a time.
  i64 busy(const State& t, i64 copy) const { return clip(t.free_at[copy], t.now - u.runs_on[copy]); }

  // Whether pipelines, slots and arbitration stand as they did, relative to the time.
  bool same_unit(const State& before) const {
    if (s.last_served != before.last_served || s.by_age != before.by_age) return false;
    if (u.width && (s.now - before.now) % u.ticks) return false;
    for (i64 c = 0; c < u.copies; ++c)
      if (busy(s, c) != busy(before, c)) return false;
    if (u.width)
      for (i64 i = 0; i < u.schedulers; ++i) {
        i64 x = s.used_at[i] == s.now ? s.used[i] : 0;
        i64 y = before.used_at[i] == before.now ? before.used[i] : 0;
        if (x != y) return false;
      }
    for (size_t i = 0; i < s.slots.size(); ++i)
      if (s.slots[i].live != before.slots[i].live || s.slots[i].arrived != before.slots[i].arrived ||
          s.slots[i].unfinished != before.slots[i].unfinished)
        return false;
    return u.arrivals.empty() || same_channels(before);
  }

  // Open phases stand alike; where blocks have been launched, they have the same numbers.
  bool same_channels(const State& before) const {
    for (size_t i = 0; i < s.slots.size(); ++i) {
      if (!s.slots[i].live) continue;
      for (size_t c = 0; c < u.arrivals.size(); ++c) {
        const Channel &now = s.slots[i].channels[c], &then = before.slots[i].channels[c];
        if (!now.same(s.now, then, before.now)) return false;
        if (s.launched != before.launched && now.base != then.base) return false;
      }
    }
    return true;
  }

  // Whether signals in a loop that has moved some iterations keep their distance from the phases.
  bool keeps_phases(const State& before, i64 slot, const Program& p, i64 loop, i64 moved) const {
    if (u.arrivals.empty() || !moved) return true;
    for (auto& node : p.nodes) {
      if (node.signal.channel < 0) continue;
      const auto& chain = p.chain(node.loop);
      auto found = std::find(chain.begin(), chain.end(), loop);
      if (found == chain.end()) continue;
      const size_t c = (size_t)node.signal.channel;
      const i64 phases = s.slots[slot].channels[c].base - before.slots[slot].channels[c].base;
      if (node.signal.steps[(size_t)(found - chain.begin())] * moved != phases) return false;
    }
    return true;
  }

  void hash_channels(Hash& h) {
    if (u.arrivals.empty()) return;
    for (auto& slot : s.slots)
      for (auto& channel : slot.channels) {
        channel.settle(s.now);
        h.add((i64)channel.open.size());
        for (auto& phase : channel.open) {
          h.add(phase.arrived * 64 + phase.copies * 2 + phase.decided);
          h.add(clip(phase.when, s.now));
        }
      }
  }

  size_t channel_bytes() const {
    size_t bytes = 0;
    for (auto& slot : s.slots)
      for (auto& channel : slot.channels) bytes += sizeof(Channel) + channel.open.size() * (sizeof(Phase) + 64);
    return bytes;
  }

  // Move what `same_unit` compares `time` ticks and some blocks on.
  void shift_unit(const State& before, i64 times, i64 time) {
    i64 launched = times * (s.launched - before.launched);
    s.launched += launched;
    s.heard.repeat(before.heard, times);
    for (auto& t : s.free_at) t += time;
    for (auto& t : s.used_at) t += t == s.now ? time : 0;
    for (size_t i = 0; i < s.slots.size(); ++i) {
      Slot& b = s.slots[i];
      b.number += launched;
      if (b.end != kNever) b.end += time;
      if (!b.live) continue;
      for (size_t c = 0; c < b.channels.size(); ++c) {
        b.channels[c].base += times * (b.channels[c].base - before.slots[i].channels[c].base);
        for (auto& phase : b.channels[c].open) phase.when += time;
      }
    }
    s.now += time;
  }

 private:
  std::vector<Detector<State>> loops;  // per depth
  Detector<State> grid;

  Self& self() { return static_cast<Self&>(*this); }

  void detect() {
    if (flagged_grid) {
      flagged_grid = false;
      for (auto& d : loops) d.reset();
      try_skip(grid);
    }
    if (flagged_depth >= 0) {
      for (i64 deeper = flagged_depth + 1; deeper < depth; ++deeper) loops[deeper].reset();
      try_skip(loops[flagged_depth]);
      flagged_depth = -1;
    }
  }

  // States that only grow, as where instructions pile up before a slow pipeline, never come again:
  // what is spent on comparing them stays in proportion to what is simulated.
  size_t compared = 0;
  bool worth_comparing() {
    if (!Self::kCompared) return true;
    if (compared > kRoom + Self::kCompared * (size_t)simulated) return false;
    compared += self().state_bytes();
    return true;
  }

  void try_skip(Detector<State>& detector) {
    if (!worth_comparing()) return;
    std::uint64_t hash = self().state_hash();
    if (detector.found(hash, [&](const State& before) { return self().skip(before); })) {
      detector.reset();
      return;
    }
    detector.remember(hash, s, self().state_bytes());
  }
};

}  // namespace perfassert
