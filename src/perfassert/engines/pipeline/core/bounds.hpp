// Bounds of a run without a simulation; bounds.py defines them and is the reference.
#pragma once

#include <algorithm>
#include <vector>

#include "unit.hpp"

namespace perfassert {

// One warp by itself, as if no pipeline were ever busy: the latest completion; of watched nodes the
// start of the first, the completion of the last, and the shortest time of one.
struct Follower {
  i64 latest = 0, first = INT64_MAX, last = 0, least = INT64_MAX;

  Follower(const Program& p, const std::vector<char>& watched_nodes, i64 unrolled)
      : program(p), watched(watched_nodes), counters(p.loops.size()), strides(p.nodes.size()), done(p.nodes.size()) {
    for (auto& loop : p.loops) trips.push_back(loop.trips);
    while (length(p.body) > unrolled && std::any_of(trips.begin(), trips.end(), [](i64 t) { return t > 1; }))
      for (i64& t : trips) t -= t / 2;
    for (size_t n = 0; n < p.nodes.size(); ++n) {
      auto& chain = p.chain(p.nodes[n].loop);
      strides[n].resize(chain.size());
      i64 instances = 1;
      for (size_t i = chain.size(); i-- > 0; instances *= trips[chain[i]]) strides[n][i] = instances;
      done[n].resize(instances);
    }
    walk(p.body);
  }

 private:
  const Program& program;
  const std::vector<char>& watched;  // by node of the graph
  std::vector<i64> trips, counters;  // by loop
  std::vector<std::vector<i64>> strides;  // of a node's instances, per loop around it
  std::vector<std::vector<i64>> done;     // completions of a node's instances
  i64 fence = 0, slot = 0;

  i64 length(const std::vector<Item>& body) const {
    i64 sum = 0;
    for (auto& item : body) sum += item.is_loop ? trips[item.index] * length(program.loops[item.index].body) : 1;
    return sum;
  }

  void walk(const std::vector<Item>& body) {
    for (auto& item : body) {
      if (!item.is_loop) { follow(item.index); continue; }
      i64& counter = counters[item.index];
      for (counter = 0; counter < trips[item.index]; ++counter) walk(program.loops[item.index].body);
    }
  }

  void follow(i64 number) {
    const Node& node = program.nodes[number];
    i64 start = std::max(node.fence && !node.partial ? latest : fence, slot);
    for (auto& edge : node.edges)
      for (auto& source : edge) {
        if (source.distance && counters[source.loop] < source.distance) continue;
        start = std::max(start, completion(source));
        break;
      }
    i64 served = 0, instance = 0;
    if (node.produces)
      for (auto& demand : node.demands) served += demand.ticks;
    i64 end = start + node.completion + served;
    auto& chain = program.chain(node.loop);
    for (size_t i = 0; i < chain.size(); ++i) instance += strides[number][i] * counters[chain[i]];
    done[number][instance] = end;
    latest = std::max(latest, end);
    if (watched[node.origin]) {
      first = std::min(first, start);
      last = std::max(last, end);
      least = std::min(least, end - start);
    }
    slot = node.stall ? start + node.stall : 0;
    if (node.fence) fence = end;
  }

  // Of the producer's instance; 0 where it lies in the last iteration of a loop that was shortened.
  i64 completion(const Source& source) const {
    auto& chain = program.chain(program.nodes[source.producer].loop);
    size_t common = program.chain(source.loop).size();
    i64 instance = 0;
    for (size_t i = 0; i < chain.size(); ++i) {
      i64 loop = chain[i], at = i < common ? counters[loop] : program.loops[loop].trips - 1;
      if (loop == source.loop) at -= source.distance;
      if (at >= trips[loop]) return 0;
      instance += strides[source.producer][i] * at;
    }
    return done[source.producer][instance];
  }
};

// Per pipeline the ticks for which its instructions occupy it; the ticks of all instructions in
// series, without slots and stalls; the ticks of stalls; then latest, first, last and least of each
// program.
inline std::vector<i64> find_bounds(Reader& in) {
  Unit u = read_unit(in);
  i64 unrolled = in.next();
  std::vector<char> watched(u.origins);
  for (i64 count = in.next(); count > 0; --count) {
    i64 node = in.next();
    if (node >= 0 && node < u.origins) watched[node] = 1;
  }
  std::vector<i64> warps(u.programs.size()), found(u.pipes + 2);
  for (i64 v : u.variant) ++warps[v];
  for (size_t i = 0; i < u.programs.size(); ++i) {
    const Program& p = u.programs[i];
    for (auto& node : p.nodes) {
      i64 times = u.blocks * warps[i], served = 0;
      for (i64 loop : p.chain(node.loop)) times *= p.loops[loop].trips;
      for (auto& demand : node.demands) {
        served += demand.ticks;
        found[demand.pipe] += times * demand.ticks;
      }
      found[node.pipe] += times * std::min(node.issue, node.completion + served);
      found[u.pipes] += times * (std::max(node.issue, node.completion) + served);
      found[u.pipes + 1] += times * node.stall;
    }
  }
  for (auto& p : u.programs) {
    Follower one(p, watched, unrolled);
    found.insert(found.end(), {one.latest, one.first, one.last, one.least});
  }
  return found;
}

}  // namespace perfassert
