// What is simulated: programs, pipelines, the unit; how it is read; what comes out.
#pragma once

#include <algorithm>
#include <vector>

#include "../../module.hpp"

namespace perfassert {

constexpr i64 kNever = INT64_MAX / 4;

struct Source { i64 producer, loop, distance; };
struct Demand { i64 pipe, ticks; };
// What a node does to a channel (-1: nothing), in phase first + sum of steps * loop counters.
struct Signal {
  i64 channel = -1, arrives = 0, waits = 0, copies = 0, expects = 0, first = 0;
  std::vector<i64> steps;  // per loop around the node, outermost first
};
struct Node {
  i64 origin, op, pipe, issue, completion, loop, offset, fence, partial, stall, produces;
  std::vector<Demand> demands;             // of the servers behind the pipeline, in order
  std::vector<std::vector<Source>> edges;  // origin: in the graph
  Signal signal;
};
struct Item { i64 is_loop, index; };
struct Loop { i64 parent, trips, length, offset, reach; std::vector<Item> body; };
struct Program {
  std::vector<Node> nodes;
  std::vector<Loop> loops;
  std::vector<Item> body;
  i64 length = 0;
  std::vector<std::vector<i64>> chains;  // per loop: itself and those around it, outermost first

  const std::vector<i64>& chain(i64 loop) const {
    static const std::vector<i64> none;
    return loop < 0 ? none : chains[loop];
  }
};

enum { kTime, kTotals, kProfile };  // what is heard of a run

struct Unit {
  i64 warps, blocks, resident, in_order, oldest_first, schedulers, width, ticks, ops, pipes,
      fast_forward, limit, origins, stagger, heard, from, to, events;  // from, to: the window of a trace; the most events in it
  std::vector<i64> variant;
  std::vector<i64> per_scheduler;
  std::vector<i64> depth;  // per pipeline: places of the queue behind it, 0 for none; -1: a server
  std::vector<i64> runs_on;  // per copy of a pipeline: ticks after which it has stood still
  std::vector<i64> arrivals;  // per channel of a block: those that complete a phase
  std::vector<Program> programs;
  std::vector<std::vector<i64>> copy;  // [pipe][scheduler] -> number of the pipeline's copy
  i64 copies = 0;
};

struct Result { i64 end = 0, instructions = 0, simulated = 0, cut_short = 0, half_time = 0, half_count = 0; std::vector<i64> heard; };

// Nothing can happen any more: the node of the graph at which a warp waits.
struct Deadlock { i64 node; };
struct TraceFull {};

inline std::vector<Item> read_items(Reader& in) {
  std::vector<Item> result(in.next());
  for (auto& item : result) { item.is_loop = in.next(); item.index = in.next(); }
  return result;
}

inline void read_signal(Reader& in, Signal& signal) {
  for (i64* f : {&signal.channel, &signal.arrives, &signal.waits, &signal.copies, &signal.expects, &signal.first}) *f = in.next();
  signal.steps.resize(in.next());
  for (auto& step : signal.steps) step = in.next();
}

// Gives nodes of a body their places in an iteration.
inline void place_nodes(Program& p, const std::vector<Item>& body) {
  i64 place = 0;
  for (auto& item : body)
    if (item.is_loop) {
      place += p.loops[item.index].trips * p.loops[item.index].length;
    } else {
      p.nodes[item.index].offset = place++;
    }
}

// No iteration looks back further than its loop runs; notes the furthest.
inline void cut_distances(Program& p) {
  for (auto& n : p.nodes)
    for (auto& edge : n.edges)
      for (auto& s : edge) {
        if (!s.distance || s.loop < 0) continue;
        Loop& l = p.loops[s.loop];
        s.distance = std::min(s.distance, l.trips);
        l.reach = std::max(l.reach, s.distance);
      }
}

// What depends on neither costs nor trips.
inline void read_outline(Reader& in, i64 ticks, Program& p) {
  p.nodes.resize(in.next());
  p.loops.resize(in.next());
  for (auto& n : p.nodes) {
    for (i64* f : {&n.origin, &n.loop, &n.fence, &n.partial, &n.stall}) *f = in.next();
    n.stall *= ticks;
    n.edges.resize(in.next());
    for (auto& edge : n.edges) {
      edge.resize(in.next());
      for (auto& s : edge) { s.producer = in.next(); s.loop = in.next(); s.distance = in.next(); }
    }
  }
  for (auto& l : p.loops) {
    l.parent = in.next();
    l.body = read_items(in);
  }
  p.body = read_items(in);
}

inline Program read_program(Reader& in, i64 ticks) {
  Program p;
  read_outline(in, ticks, p);
  for (auto& n : p.nodes) {
    for (i64* f : {&n.op, &n.pipe, &n.issue, &n.completion, &n.produces}) *f = in.next();
    n.demands.resize(in.next());
    for (auto& d : n.demands) { d.pipe = in.next(); d.ticks = in.next(); }
  }
  p.length = in.next();
  for (auto& l : p.loops) {
    for (i64* f : {&l.trips, &l.length, &l.offset}) *f = in.next();
    l.reach = 0;
  }
  for (i64 signals = in.next(); signals > 0; --signals) {
    i64 node = in.next();
    read_signal(in, p.nodes[node].signal);
  }
  place_nodes(p, p.body);
  for (auto& l : p.loops) place_nodes(p, l.body);
  cut_distances(p);
  p.chains.resize(p.loops.size());
  for (size_t i = 0; i < p.loops.size(); ++i) {
    for (i64 l = (i64)i; l >= 0; l = p.loops[l].parent) p.chains[i].push_back(l);
    std::reverse(p.chains[i].begin(), p.chains[i].end());
  }
  return p;
}

// Issue slots lie at whole cycles, what a pipeline takes need not: it goes on where it was done, if
// that was less than a cycle ago. One with a queue is fed from there.
inline void find_running_on(Unit& u) {
  u.runs_on.assign(u.copies, 0);
  for (auto& p : u.programs)
    for (auto& n : p.nodes)
      if (u.width && u.depth[n.pipe] == 0 && n.issue % u.ticks)
        for (i64 copy : u.copy[n.pipe]) u.runs_on[copy] = u.ticks;
}

inline Unit read_unit(Reader& in) {
  Unit u;
  i64 programs = in.next();
  for (i64* f : {&u.warps, &u.blocks, &u.resident, &u.in_order, &u.oldest_first, &u.schedulers,
                 &u.width, &u.ticks, &u.ops, &u.pipes, &u.fast_forward, &u.limit, &u.origins, &u.stagger,
                 &u.heard, &u.from, &u.to, &u.events})
    *f = in.next();
  for (i64 i = 0; i < u.warps; ++i) u.variant.push_back(in.next());
  for (i64 i = 0; i < u.pipes; ++i) u.per_scheduler.push_back(in.next());
  for (i64 i = 0; i < u.pipes; ++i) u.depth.push_back(in.next());
  u.arrivals.resize(in.next());
  for (auto& arrivals : u.arrivals) arrivals = in.next();
  for (i64 i = 0; i < programs; ++i) u.programs.push_back(read_program(in, u.ticks));
  for (i64 i = 0; i < u.pipes; ++i) {
    u.copy.emplace_back();
    for (i64 s = 0; s < u.schedulers; ++s)
      u.copy.back().push_back(u.copies + (u.per_scheduler[i] ? s : 0));
    u.copies += u.per_scheduler[i] ? u.schedulers : 1;
  }
  find_running_on(u);
  return u;
}

}  // namespace perfassert
