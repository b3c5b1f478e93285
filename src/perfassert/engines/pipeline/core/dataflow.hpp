// Algorithm 1 of the paper: any instruction whose operands are there may issue, the lowest in
// program order first. Loops are unrolled only as far ahead as matters.
#pragma once

#include <map>
#include <queue>
#include <set>
#include <tuple>

#include "fast_forward.hpp"

namespace perfassert {

// An iteration space that is being executed: iterations [0, next) exist as instructions.
struct Space { i64 loop, start, parent, next, newest, done; bool fenced; };
struct Instruction { i64 node, space, waits; enum { kWaiting, kReady, kFlying } phase; i64 when; };
struct Frame { i64 body, at, space, base; };  // body: the loop whose items are walked, or -1

struct FlowWarp {
  std::map<i64, Instruction> live;                    // by number in program order
  std::unordered_map<i64, std::vector<i64>> waiters;  // producer -> consumers
  std::vector<std::set<i64>> ready;                   // per pipe
  std::map<i64, Space> spaces;                        // by id, in order of creation
  std::vector<Frame> walker;
  i64 barrier = -1, completed = 0, issued = 0, next_space = 0;
};

template <class Heard> struct FlowState : UnitState<Heard> {
  using UnitState<Heard>::UnitState;
  std::vector<FlowWarp> warps;
};

template <class Heard>
class Dataflow : public Engine<Dataflow<Heard>, FlowState<Heard>> {
  using State = FlowState<Heard>;
  using Base = Engine<Dataflow, State>;
  friend Base;
  using Base::u, Base::s, Base::simulated, Base::anchor, Base::flagged_grid;
  using Base::tell, Base::flag, Base::has_slot, Base::same_unit, Base::shift_unit, Base::occupy, Base::busy;
  using Base::keeps_phases, Base::hash_channels, Base::channel_bytes;

 public:
  static constexpr size_t kCompared = 1024;  // bytes of states per instruction

  explicit Dataflow(const Unit& unit) : Base(unit, unit.copies) {
    s.warps.resize(u.resident * u.warps);
    able.resize(u.copies);
    for (auto& p : u.programs) {
      fenced.emplace_back(p.loops.size(), 0);
      for (auto& node : p.nodes)
        if (node.fence)
          for (i64 loop : p.chain(node.loop)) fenced.back()[loop] = 1;
    }
  }

 private:
  using Entry = std::tuple<i64, i64, i64>;  // time, warp, instruction
  using Heap = std::priority_queue<Entry, std::vector<Entry>, std::greater<Entry>>;
  std::vector<std::vector<char>> fenced;  // per program and loop: holds a barrier
  std::vector<std::set<i64>> able;        // per copy: warps with a ready instruction
  Heap completions;

  const Program& program(i64 w) const { return u.programs[u.variant[w % u.warps]]; }
  bool is_fenced(i64 w, i64 loop) const { return fenced[u.variant[w % u.warps]][loop]; }
  i64 block_of(i64 w) const { return s.slots[w / u.warps].number; }
  i64 drained_warps() const { return 0; }  // told in order only
  i64 copy_of(i64 w, i64 pipe) const { return u.copy[pipe][w % u.schedulers]; }

  void launch(i64 slot) {
    Slot& b = s.slots[slot];
    b = Slot();
    b.live = true;
    b.number = s.launched++;
    b.channels.resize(u.arrivals.size());
    tell(Launched{s.now, b.number, slot * u.warps});
    s.by_age.push_back(slot);
    s.live_warps += u.warps;
    for (i64 w = slot * u.warps; w < (slot + 1) * u.warps; ++w) {
      s.warps[w] = FlowWarp();
      s.warps[w].ready.resize(u.pipes);
      s.warps[w].walker.push_back({-1, 0, -1, 0});
      walk(w);
    }
  }

  bool complete(i64 slot) const {
    for (i64 w = slot * u.warps; w < (slot + 1) * u.warps; ++w)
      if (s.warps[w].completed < program(w).length) return false;
    return true;
  }

  void retire() {
    bool again = true;
    while (again) {
      again = false;
      for (i64 slot = 0; slot < u.resident; ++slot) {
        if (!s.slots[slot].live || !complete(slot)) continue;
        s.slots[slot].live = false;
        tell(Retired{s.now, s.slots[slot].number});
        s.live_warps -= u.warps;
        s.by_age.erase(std::find(s.by_age.begin(), s.by_age.end(), slot));
        if (s.launched < u.blocks) { launch(slot); again = true; }
        flagged_grid = true;
      }
    }
  }

  // ---- making instructions

  const std::vector<Item>& items(i64 w, i64 body) const {
    return body < 0 ? program(w).body : program(w).loops[body].body;
  }

  // Walk on in program order until a barrier; iterations of loops with barriers one by one.
  void walk(i64 w) {
    FlowWarp& warp = s.warps[w];
    while (!warp.walker.empty() && warp.barrier < 0) {
      Frame& frame = warp.walker.back();
      const auto& body = items(w, frame.body);
      if (frame.at == (i64)body.size()) {
        if (!next_iteration(w, warp, frame)) warp.walker.pop_back();
        continue;
      }
      Item item = body[frame.at++];
      if (!item.is_loop) {
        create(w, item.index, frame.space, frame.base);
      } else if (is_fenced(w, item.index)) {
        i64 id = open(w, item.index, frame.space, frame.base);
        warp.spaces[id].next = 1;
        warp.walker.push_back({item.index, 0, id, warp.spaces[id].start});
      } else {
        extend(w, open(w, item.index, frame.space, frame.base));
      }
    }
  }

  bool next_iteration(i64 w, FlowWarp& warp, Frame& frame) {
    if (frame.body < 0) return false;
    auto found = warp.spaces.find(frame.space);
    if (found == warp.spaces.end()) return false;
    Space& space = found->second;
    const Loop& loop = program(w).loops[space.loop];
    if (space.next >= loop.trips) return false;
    frame.at = 0;
    frame.base = space.start + space.next * loop.length;
    ++space.next;
    return true;
  }

  i64 open(i64 w, i64 loop, i64 parent, i64 base) {
    FlowWarp& warp = s.warps[w];
    i64 id = warp.next_space++;
    i64 start = base + program(w).loops[loop].offset;
    warp.spaces[id] = {loop, start, parent, 0, -1, 0, is_fenced(w, loop)};
    return id;
  }

  // Keep as many untouched iterations as any carried edge reaches, and one: if nothing in them has
  // been issued, later ones can have nothing ready that they have not.
  void extend(i64 w, i64 id) {
    FlowWarp& warp = s.warps[w];
    while (true) {
      auto found = warp.spaces.find(id);
      if (found == warp.spaces.end() || found->second.fenced) return;
      Space& space = found->second;
      const Loop& loop = program(w).loops[space.loop];
      i64 wanted = std::min(loop.trips, std::max(loop.reach + 1, space.newest + loop.reach + 2));
      if (space.next >= wanted) return;
      i64 base = space.start + space.next++ * loop.length;
      for (const Item& item : loop.body) {
        if (item.is_loop) extend(w, open(w, item.index, id, base));
        else create(w, item.index, id, base);
      }
    }
  }

  i64 number_of(const FlowWarp& warp, i64 w, const Source& source, i64 space) const {
    const Program& p = program(w);
    const Node& node = p.nodes[source.producer];
    i64 place = node.offset;
    bool inside = source.loop >= 0;
    for (i64 level : p.chain(node.loop)) {
      const Loop& loop = p.loops[level];
      i64 iteration = loop.trips - 1;
      if (inside) iteration = iteration_in(warp, w, space, level) - (level == source.loop ? source.distance : 0);
      place += loop.offset + iteration * loop.length;
      if (level == source.loop) inside = false;
    }
    return place;
  }

  i64 current = 0;  // number of the instruction whose edges are being resolved

  i64 iteration_in(const FlowWarp& warp, i64 w, i64 space, i64 level) const {
    while (space >= 0) {
      const Space& x = warp.spaces.at(space);
      if (x.loop == level) return (current - x.start) / program(w).loops[level].length;
      space = x.parent;
    }
    throw std::runtime_error("an edge names a loop that does not enclose its consumer");
  }

  bool done(const FlowWarp& warp, i64 w, i64 number) const {
    if (warp.live.count(number)) return false;
    for (auto& entry : warp.spaces) {
      const Space& x = entry.second;
      const Loop& loop = program(w).loops[x.loop];
      if (number >= x.start + x.next * loop.length && number < x.start + loop.trips * loop.length)
        return false;
    }
    return true;
  }

  void create(i64 w, i64 n, i64 space, i64 base) {
    FlowWarp& warp = s.warps[w];
    const Node& node = program(w).nodes[n];
    i64 number = base + node.offset;
    Instruction made{n, space, 0, Instruction::kWaiting, 0};
    current = number;
    for (auto& edge : node.edges)
      for (auto& source : edge) {
        if (source.distance && iteration_in(warp, w, space, source.loop) < source.distance) continue;
        i64 producer = number_of(warp, w, source, space);
        if (!done(warp, w, producer)) {
          ++made.waits;
          warp.waiters[producer].push_back(number);
        }
        break;
      }
    warp.live[number] = made;
    if (node.fence) { warp.barrier = number; offer_barrier(w); }
    else if (!made.waits) offer(w, number);
  }

  void offer(i64 w, i64 number) {
    FlowWarp& warp = s.warps[w];
    Instruction& x = warp.live[number];
    x.phase = Instruction::kReady;
    i64 pipe = program(w).nodes[x.node].pipe;
    warp.ready[pipe].insert(number);
    able[copy_of(w, pipe)].insert(w * u.pipes + pipe);
  }

  void offer_barrier(i64 w) {
    FlowWarp& warp = s.warps[w];
    if (warp.barrier < 0) return;
    Instruction& x = warp.live[warp.barrier];
    if (x.phase != Instruction::kWaiting) return;
    bool partial = program(w).nodes[x.node].partial;
    if (partial ? warp.issued == warp.barrier && !x.waits : warp.completed == warp.barrier)
      offer(w, warp.barrier);
  }

  // ---- completion

  void complete_all() {
    while (!completions.empty() && std::get<0>(completions.top()) <= s.now) {
      i64 w = std::get<1>(completions.top()), number = std::get<2>(completions.top());
      completions.pop();
      finish(w, number);
    }
  }

  void finish(i64 w, i64 number) {
    FlowWarp& warp = s.warps[w];
    i64 space = warp.live[number].space;
    tell(Completed{s.now, block_of(w), w, program(w).nodes[warp.live[number].node].origin});
    warp.live.erase(number);
    ++warp.completed;
    while (space >= 0) {
      Space& x = warp.spaces[space];
      const Loop& loop = program(w).loops[x.loop];
      i64 parent = x.parent;
      if (++x.done == loop.trips * loop.length) warp.spaces.erase(space);
      space = parent;
    }
    auto found = warp.waiters.find(number);
    if (found != warp.waiters.end()) {
      std::vector<i64> consumers = std::move(found->second);
      warp.waiters.erase(found);
      for (i64 consumer : consumers) {
        Instruction& x = warp.live[consumer];
        if (--x.waits == 0 && !program(w).nodes[x.node].fence) offer(w, consumer);
      }
    }
    if (number == warp.barrier) {
      warp.barrier = -1;
      walk(w);
    }
    offer_barrier(w);
  }

  // ---- issue

  void issue_all() {
    bool progress = true;
    while (progress) {
      progress = false;
      for (i64 pipe = 0; pipe < u.pipes; ++pipe)
        for (i64 i = 0; i < (u.per_scheduler[pipe] ? u.schedulers : 1); ++i)
          progress |= issue(pipe, u.copy[pipe][i]);
    }
  }

  i64 choose(i64 copy) {
    auto& set = able[copy];
    if (u.oldest_first) {
      i64 last = s.last_served[copy];
      for (i64 key : set) if (key / u.pipes == last && has_slot(last % u.schedulers)) return key;
      for (i64 slot : s.by_age)
        for (auto at = set.lower_bound(slot * u.warps * u.pipes);
             at != set.end() && *at / u.pipes < (slot + 1) * u.warps; ++at)
          if (has_slot(*at / u.pipes % u.schedulers)) return *at;
      return -1;
    }
    auto first = set.lower_bound((s.last_served[copy] + 1) * u.pipes);
    for (auto at = first; at != set.end(); ++at)
      if (has_slot(*at / u.pipes % u.schedulers)) return *at;
    for (auto at = set.begin(); at != first; ++at)
      if (has_slot(*at / u.pipes % u.schedulers)) return *at;
    return -1;
  }

  bool issue(i64 pipe, i64 copy) {
    if (able[copy].empty() || s.free_at[copy] > s.now) return false;
    i64 key = choose(copy);
    if (key < 0) return false;
    i64 w = key / u.pipes;
    FlowWarp& warp = s.warps[w];
    i64 number = *warp.ready[pipe].begin();
    warp.ready[pipe].erase(warp.ready[pipe].begin());
    if (warp.ready[pipe].empty()) able[copy].erase(key);
    s.last_served[copy] = w;
    const Node& node = program(w).nodes[warp.live[number].node];
    occupy(s.free_at[copy], u.runs_on[copy], node.issue);
    ++s.used[w % u.schedulers];
    ++simulated;
    tell(Issued{s.now, block_of(w), w, w % u.schedulers, warp.live[number].node, node.origin, node.op,
                node.pipe, node.issue});
    ++warp.issued;
    warp.live[number].phase = Instruction::kFlying;
    warp.live[number].when = kNever;
    if (node.signal.channel >= 0) signal(w, number, node);
    if (node.signal.waits) {}
    else if (node.fence) arrive(w, node);
    else fly(w, number, s.now + node.completion);
    touch(w, number);
    offer_barrier(w);
    return true;
  }

  void fly(i64 w, i64 number, i64 when) {
    s.warps[w].live[number].when = when;
    completions.push(std::make_tuple(when, w, number));
  }

  // What an issue means to a channel; a warp that waits there goes on when its phase is complete.
  void signal(i64 w, i64 number, const Node& node) {
    const Signal& signal = node.signal;
    const FlowWarp& warp = s.warps[w];
    Channel& channel = s.slots[w / u.warps].channels[(size_t)signal.channel];
    i64 phase = signal.first;
    const auto& chain = program(w).chain(node.loop);
    current = number;
    for (size_t i = 0; i < chain.size(); ++i)
      phase += signal.steps[i] * iteration_in(warp, w, warp.live.at(number).space, chain[i]);
    if (signal.arrives || signal.copies) {
      const i64 needed = u.arrivals[(size_t)signal.channel];
      const i64 when = s.now + (signal.waits ? 0 : node.completion);
      if (Phase* decided = signalled(channel, signal, phase, needed, when, s.now)) release(*decided);
    }
    if (!signal.waits) return;
    i64 end;
    if (channel.known(phase, s.now, end)) fly(w, number, end + node.completion);
    else channel.at(phase).waiters.push_back(w);
  }

  void release(Phase& phase) {
    for (i64 w : phase.waiters) {
      const i64 number = s.warps[w].barrier;
      fly(w, number, std::max(s.now, phase.when) + program(w).nodes[s.warps[w].live[number].node].completion);
    }
    phase.waiters.clear();
  }

  // Of a warp that waits where nothing can happen any more.
  i64 waiting_node() const {
    for (size_t w = 0; w < s.warps.size(); ++w) {
      const FlowWarp& warp = s.warps[w];
      if (!s.slots[w / u.warps].live || warp.barrier < 0) continue;
      const Instruction& x = warp.live.at(warp.barrier);
      if (x.phase == Instruction::kFlying) return program((i64)w).nodes[x.node].origin;
    }
    return -1;
  }

  void arrive(i64 w, const Node& node) {
    Slot& b = s.slots[w / u.warps];
    if (++b.arrived < u.warps) return;
    b.arrived = 0;
    tell(Barrier{s.now, b.number, w, node.origin});
    for (i64 v = w / u.warps * u.warps; v < (w / u.warps + 1) * u.warps; ++v)
      fly(v, s.warps[v].barrier, s.now + node.completion);
  }

  // An issue uses up look-ahead; the first instruction of an iteration is a place to compare.
  void touch(i64 w, i64 number) {
    FlowWarp& warp = s.warps[w];
    bool watched = w / u.warps == s.by_age[0] && w % u.warps == anchor;
    std::vector<i64> around;
    for (i64 id = warp.live[number].space; id >= 0; id = warp.spaces[id].parent) around.push_back(id);
    for (size_t i = 0; i < around.size(); ++i) {
      Space& x = warp.spaces[around[i]];
      i64 length = program(w).loops[x.loop].length, level = (i64)around.size() - 1 - (i64)i;
      x.newest = std::max(x.newest, (number - x.start) / length);
      if (watched && (number - x.start) % length == 0) flag(level);
    }
    for (i64 id : around) extend(w, id);
  }

  void advance_to(i64 next) {
    s.now = next;
    complete_all();
  }

  bool complete_now() const {
    for (i64 slot = 0; slot < u.resident; ++slot)
      if (s.slots[slot].live && complete(slot)) return true;
    return false;
  }

  i64 next_time() {
    i64 next = completions.empty() ? kNever : std::get<0>(completions.top());
    for (i64 c = 0; c < u.copies; ++c) {
      if (able[c].empty()) continue;
      i64 free = s.free_at[c];
      if (u.width) free = (std::max(free, s.now + 1) + u.ticks - 1) / u.ticks * u.ticks;
      if (free > s.now) next = std::min(next, free);
    }
    return next;
  }

  // ---- fast-forward

  size_t state_bytes() const {
    size_t entries = channel_bytes() / 64;
    for (auto& warp : s.warps) entries += 4 + warp.live.size() * 3 + warp.spaces.size() * 2;
    return entries * 64;
  }

  std::uint64_t state_hash() {
    Hash h;
    hash_channels(h);
    for (i64 w : s.last_served) h.add(w);
    for (i64 c = 0; c < u.copies; ++c) h.add(busy(s, c));
    for (size_t w = 0; w < s.warps.size(); ++w) {
      const FlowWarp& warp = s.warps[w];
      if (!s.slots[w / u.warps].live) continue;
      h.add((i64)warp.live.size() * 64 + (i64)warp.walker.size());
      for (auto& entry : warp.live) {
        const Instruction& x = entry.second;
        h.add(x.node * 4 + x.phase);
        if (x.phase == Instruction::kFlying) h.add(x.when == kNever ? -1 : x.when - s.now);
      }
    }
    return h.value;
  }

  // How far each space of a warp has moved since `before`: id -> iterations.
  using Moves = std::map<i64, i64>;

  i64 base_of(const FlowWarp& warp, i64 w, const Space& x) const {
    if (x.fenced) return x.next;
    i64 length = program(w).loops[x.loop].length;
    auto lowest = warp.live.lower_bound(x.start);
    return lowest == warp.live.end() ? x.next : std::min(x.next, (lowest->first - x.start) / length);
  }

  bool same_spaces(i64 w, const FlowWarp& a, const FlowWarp& b, Moves& moves, i64& times) const {
    if (a.spaces.size() != b.spaces.size()) return false;
    std::map<i64, i64> twin;  // id now -> id then
    auto y = b.spaces.begin();
    for (auto x = a.spaces.begin(); x != a.spaces.end(); ++x, ++y) {
      const Space &p = x->second, &q = y->second;
      if (p.loop != q.loop || (p.parent < 0) != (q.parent < 0)) return false;
      if (p.parent >= 0 && twin[p.parent] != q.parent) return false;
      twin[x->first] = y->first;
      const Loop& loop = program(w).loops[p.loop];
      i64 old_base = base_of(b, w, q), move = base_of(a, w, p) - old_base;
      if (p.next - q.next != move || p.newest - q.newest != move) return false;
      i64 around = 0;
      bool outer_moved = false;
      for (i64 id = p.parent; id >= 0; id = a.spaces.at(id).parent) {
        i64 outer = moves[id];
        outer_moved |= outer != 0;
        around += outer * program(w).loops[a.spaces.at(id).loop].length;
      }
      if (p.start - q.start != around || p.done - q.done != move * loop.length) return false;
      if (move < 0 || (move && outer_moved)) return false;
      if (move) {
        if (old_base < loop.reach) return false;
        times = std::min(times, (loop.trips - p.next) / move);
      }
      moves[x->first] = move;
    }
    return true;
  }

  // How far an instruction moves with the spaces that hold both it and `companion`: a consumer
  // outside a space means the space's last iteration, which stays where it is.
  i64 moved_by(i64 w, const FlowWarp& warp, const Moves& moves, i64 number, i64 companion) const {
    i64 total = 0;
    for (auto& entry : warp.spaces) {
      const Space& x = entry.second;
      const Loop& loop = program(w).loops[x.loop];
      auto holds = [&](i64 n) { return n >= x.start && n < x.start + loop.trips * loop.length; };
      if (holds(number) && holds(companion)) total += moves.at(entry.first) * loop.length;
    }
    return total;
  }

  bool same_warp(i64 w, const State& before, Moves& moves, i64& times) const {
    const FlowWarp &a = s.warps[w], &b = before.warps[w];
    if (a.live.size() != b.live.size() || a.walker.size() != b.walker.size() ||
        (a.barrier < 0) != (b.barrier < 0) || a.issued - a.completed != b.issued - b.completed)
      return false;
    for (size_t i = 0; i < a.walker.size(); ++i)
      if (a.walker[i].body != b.walker[i].body || a.walker[i].at != b.walker[i].at) return false;
    if (!same_spaces(w, a, b, moves, times)) return false;
    auto y = b.live.begin();
    for (auto x = a.live.begin(); x != a.live.end(); ++x, ++y) {
      const Instruction &p = x->second, &q = y->second;
      if (p.node != q.node || p.phase != q.phase || p.waits != q.waits) return false;
      if (p.phase == Instruction::kFlying && (p.when == kNever) != (q.when == kNever)) return false;
      if (p.phase == Instruction::kFlying && p.when != kNever &&
          p.when - s.now != q.when - before.now)
        return false;
      i64 number = x->first;
      i64 moved = 0;
      for (i64 id = p.space; id >= 0; id = a.spaces.at(id).parent)
        moved += moves[id] * program(w).loops[a.spaces.at(id).loop].length;
      if (number - y->first != moved) return false;
    }
    return a.barrier < 0 || a.live.at(a.barrier).node == b.live.at(b.barrier).node;
  }

  bool skip(const State& before) {
    if (s.now <= before.now || !same_unit(before)) return false;
    i64 blocks = s.launched - before.launched;
    i64 times = blocks ? (u.blocks - s.launched) / blocks : kNever;
    bool moved = blocks > 0;
    std::vector<Moves> moves(s.warps.size());
    for (size_t w = 0; w < s.warps.size(); ++w) {
      if (!s.slots[w / u.warps].live) continue;
      if (!same_warp((i64)w, before, moves[w], times)) return false;
      for (auto& m : moves[w]) {
        if (m.second && blocks) return false;
        if (!keeps_phases(before, (i64)w / u.warps, program(w), s.warps[w].spaces.at(m.first).loop, m.second))
          return false;
        moved |= m.second != 0;
      }
    }
    if (!moved || times <= 0 || times == kNever) return false;
    shift(before, times, moves);
    return true;
  }

  void shift(const State& before, i64 times, const std::vector<Moves>& moves) {
    i64 time = times * (s.now - before.now);
    completions = Heap();
    for (size_t w = 0; w < s.warps.size(); ++w)
      if (s.slots[w / u.warps].live) shift_warp((i64)w, times, time, moves[w]);
    shift_unit(before, times, time);
  }

  void shift_warp(i64 w, i64 times, i64 time, const Moves& moves) {
    FlowWarp& a = s.warps[w];
    auto moved_with = [&](i64 number, i64 companion) {
      return number + times * moved_by(w, a, moves, number, companion);
    };
    auto moved = [&](i64 number) { return moved_with(number, number); };
    std::map<i64, Instruction> live;
    for (auto& entry : a.live) {
      Instruction x = entry.second;
      i64 number = moved(entry.first);
      if (x.phase == Instruction::kFlying && x.when != kNever) {
        x.when += time;
        completions.push(std::make_tuple(x.when, w, number));
      }
      live[number] = x;
    }
    std::unordered_map<i64, std::vector<i64>> waiters;
    for (auto& entry : a.waiters) {
      for (i64 consumer : entry.second)
        waiters[moved_with(entry.first, consumer)].push_back(moved(consumer));
    }
    for (auto& set : a.ready) {
      std::set<i64> numbers;
      for (i64 n : set) numbers.insert(moved(n));
      set = numbers;
    }
    for (auto& frame : a.walker)
      if (frame.space >= 0) {
        // the frame's iteration: its base moves with every space around it
        i64 inside = frame.base;
        frame.base = moved(inside);
      }
    if (a.barrier >= 0) a.barrier = moved(a.barrier);
    a.live = std::move(live);
    a.waiters = std::move(waiters);
    i64 sum = 0;
    std::map<i64, Space> spaces = a.spaces;
    for (auto& entry : spaces) {
      Space& x = entry.second;
      i64 move = times * moves.at(entry.first), length = program(w).loops[x.loop].length;
      for (i64 id = x.parent; id >= 0; id = a.spaces.at(id).parent)
        x.start += times * moves.at(id) * program(w).loops[a.spaces.at(id).loop].length;
      x.next += move;
      x.newest += move;
      x.done += move * length;
      sum += move * length;
    }
    a.spaces = std::move(spaces);
    a.completed += sum;
    a.issued += sum;
  }
};

}  // namespace perfassert
