// A program in a line, laid out for the in-order engine: what most instructions need stands in one
// cache line, what few need behind it.
#pragma once

#include <map>

#include "unit.hpp"

namespace perfassert {

// Nodes, and the places where a loop begins and ends; `index`: of a node's Op, of the loop.
struct Step { enum Kind { kNode, kBegin, kEnd } kind; i64 index; i64 jump; };

// A ring holds the completions of a producer in the last iteration of the loops deeper than
// `level`, for the iterations of `level` that can still be asked for. `brief`: nobody asks after the
// last node of the same iteration that always does, so that others may stand there afterwards.
struct Port { i64 producer, level, size, at; bool brief; };  // size: a power of two
// One source of an edge; `last`: no other source stands behind it.
struct Use { i64 at, mask, level, distance, origin; bool last; };
struct Fill { i64 at, mask, level, deeper, deeper_end; };  // deeper: loops that must be in their last

// Words of a warp's rings that belong to no port: one is always zero, one is never read.
enum { kZero, kUnread, kFirstPort };

// Two values of the same iteration are read, and one written, without asking whether there are so
// many; nodes that are not `plain` have other or more uses. In program order.
struct alignas(64) Op {
  static constexpr int kPlain = 2;
  i64 issue, completion, stall;
  std::int32_t pipe, use_at[kPlain] = {kZero, kZero}, fill_at = kUnread;
  std::int32_t depth, demands;  // depth: places of the queue behind the pipeline
  const Demand* demand;         // the first one
  bool fence, partial, produces, plain, more_fills = false, followed = false, signals = false;
  bool usual = false;  // followed, and no fence, signals or further fills
};
static_assert(sizeof(Op) == 64, "an operation stands in one cache line");
// `number`: of the node in its program; `step`: its place in the line; ranges.
struct Rest {
  i64 number, step, first_use, last_use, first_fill, last_fill, origin, op;
  std::int32_t use_origin[Op::kPlain] = {-2, -2};
};

struct Code {
  const Program* program;
  std::vector<Step> steps;
  std::vector<Op> operations;
  std::vector<Rest> rest;
  std::vector<Port> ports;
  std::vector<Use> uses;
  std::vector<Fill> fills;
  std::vector<i64> deeper;  // loops, by the ranges that fills name
  i64 brief_end = kFirstPort;  // of the words that brief ports share
  i64 ring_words = kFirstPort, first_node, first_use;  // numbers of its nodes, uses over all programs

  Code(const Program& p, const std::vector<i64>& queues, i64 nodes_before, i64 uses_before)
      : program(&p), first_node(nodes_before), first_use(uses_before), depths(queues) {
    line(p.body);
    std::vector<size_t> place(p.nodes.size());
    for (size_t i = 0; i < rest.size(); ++i) place[rest[i].number] = i;
    make_ports(p, place);
    for (size_t n = 0; n < place.size(); ++n) make(p, p.nodes[n], operations[place[n]], rest[place[n]]);
  }

 private:
  const std::vector<i64>& depths;            // of the queues behind pipelines
  std::map<std::pair<i64, i64>, i64> known;  // (producer, loop) -> port
  std::vector<std::vector<i64>> ports_of;    // by producer

  void line(const std::vector<Item>& body) {
    for (auto& item : body) {
      if (!item.is_loop) {
        if (!steps.empty() && steps.back().kind == Step::kNode) operations.back().followed = true;
        rest.push_back({item.index, (i64)steps.size()});
        steps.push_back({Step::kNode, (i64)operations.size(), 0});
        operations.emplace_back();
        continue;
      }
      steps.push_back({Step::kBegin, item.index, 0});
      i64 first = (i64)steps.size();
      line(program->loops[item.index].body);
      steps.push_back({Step::kEnd, item.index, first});
    }
  }

  void make_ports(const Program& p, const std::vector<size_t>& place) {
    std::vector<size_t> last_use;  // of each port: the place in the line
    for (size_t n = 0; n < p.nodes.size(); ++n)
      for (auto& edge : p.nodes[n].edges)
        for (auto& source : edge) {
          auto found = known.emplace(std::make_pair(source.producer, source.loop), (i64)ports.size());
          if (found.second) {
            ports.push_back({source.producer, source.loop, 1, 0, p.nodes[source.producer].loop == source.loop});
            last_use.push_back(0);
          }
          Port& port = ports[found.first->second];
          while (port.size < source.distance + 1) port.size *= 2;
          port.brief = port.brief && source.distance == 0 && edge.size() == 1 &&
                       p.nodes[n].loop == source.loop && place[n] > place[source.producer];
          last_use[found.first->second] = std::max(last_use[found.first->second], place[n]);
        }
    ports_of.resize(p.nodes.size());
    for (auto& port : ports) ports_of[port.producer].push_back(&port - ports.data());
    place_ports(last_use);
  }

  // Brief ports share words as values share registers; each other one has its own.
  void place_ports(const std::vector<size_t>& last_use) {
    std::vector<std::vector<i64>> ending(operations.size());  // words, by the place of their last use
    std::vector<i64> unused;
    for (size_t at = 0; at < operations.size(); ++at) {
      unused.insert(unused.end(), ending[at].begin(), ending[at].end());
      for (i64 number : ports_of[rest[at].number]) {
        if (!ports[number].brief) continue;
        if (unused.empty()) unused.push_back(brief_end++);
        ports[number].at = unused.back();
        unused.pop_back();
        ending[last_use[number]].push_back(ports[number].at);
      }
    }
    ring_words = brief_end;
    for (auto& port : ports) {
      if (port.brief) continue;
      port.at = ring_words;
      ring_words += port.size;
    }
  }

  void make(const Program& p, const Node& node, Op& made, Rest& more) {
    made.issue = node.issue;
    made.completion = node.completion;
    made.stall = node.stall;
    more.origin = node.origin;
    more.op = node.op;
    made.pipe = (std::int32_t)node.pipe;
    made.fence = node.fence != 0;
    made.partial = node.partial != 0;
    made.produces = node.produces != 0;
    made.signals = node.signal.channel >= 0;
    made.depth = (std::int32_t)depths[node.pipe];
    made.demand = node.demands.data();
    made.demands = (std::int32_t)node.demands.size();
    add_uses(p, node, made, more);
    add_fills(p, made, more);
    made.usual = made.followed && !made.fence && !made.signals && !made.more_fills;
  }

  void add_uses(const Program& p, const Node& node, Op& made, Rest& more) {
    more.first_use = (i64)uses.size();
    made.plain = node.edges.size() <= (size_t)Op::kPlain && !(node.fence && !node.partial);
    for (auto& edge : node.edges)
      for (auto& source : edge) {
        const Port& port = ports[known.at({source.producer, source.loop})];
        uses.push_back({port.at, port.size - 1, source.loop, source.distance,
                        p.nodes[source.producer].origin, &source == &edge.back()});
        made.plain = made.plain && edge.size() == 1 && port.size == 1;
      }
    more.last_use = (i64)uses.size();
    for (i64 i = more.first_use; made.plain && i < more.last_use; ++i) {
      made.use_at[i - more.first_use] = (std::int32_t)uses[i].at;
      more.use_origin[i - more.first_use] = (std::int32_t)uses[i].origin;
    }
  }

  void add_fills(const Program& p, Op& made, Rest& more) {
    more.first_fill = (i64)fills.size();
    for (i64 number : ports_of[more.number]) {
      const Port& port = ports[number];
      Fill fill{port.at, port.size - 1, port.level, (i64)deeper.size(), 0};
      const auto& chain = p.chain(p.nodes[port.producer].loop);
      for (size_t i = chain.size(); i-- > 0 && chain[i] != port.level;) deeper.push_back(chain[i]);
      fill.deeper_end = (i64)deeper.size();
      bool always = fill.deeper == fill.deeper_end && port.size == 1;
      if (always && made.fill_at == kUnread) made.fill_at = (std::int32_t)port.at;
      else fills.push_back(fill);
    }
    more.last_fill = (i64)fills.size();
    made.more_fills = more.first_fill < more.last_fill;
  }
};

}  // namespace perfassert
