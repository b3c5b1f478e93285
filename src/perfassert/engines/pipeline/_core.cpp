// The compiled engine of perfassert's pipeline simulator. reference.py defines the semantics; this
// file repeats them on states that can be copied, compared and shifted, so that whole periods can
// be skipped exactly. Input and output are flat arrays of 64-bit integers (see compiled.py).
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030A0000
#include <Python.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <queue>
#include <set>
#include <stdexcept>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

namespace {

using i64 = std::int64_t;
constexpr i64 kNever = INT64_MAX / 4;

struct Source { i64 producer, loop, distance; };
struct Node {
  i64 origin, op, pipe, issue, completion, loop, offset, fence, partial;  // origin: in the graph
  std::vector<std::vector<Source>> edges;
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

struct Unit {
  i64 warps, blocks, resident, in_order, oldest_first, schedulers, width, ticks, ops, pipes,
      fast_forward, limit, origins;
  std::vector<i64> variant;
  std::vector<i64> per_scheduler;
  std::vector<Program> programs;
  std::vector<std::vector<i64>> copy;  // [pipe][scheduler] -> number of the pipeline's copy
  i64 copies = 0;
};

struct Reader {
  const i64* at;
  const i64* end;
  i64 next() {
    if (at == end) throw std::runtime_error("truncated input");
    return *at++;
  }
  std::vector<Item> items() {
    std::vector<Item> result(next());
    for (auto& item : result) { item.is_loop = next(); item.index = next(); }
    return result;
  }
};

Program read_program(Reader& in) {
  Program p;
  p.nodes.resize(in.next());
  p.loops.resize(in.next());
  p.length = in.next();
  for (auto& n : p.nodes) {
    for (i64* f : {&n.origin, &n.op, &n.pipe, &n.issue, &n.completion, &n.loop, &n.offset, &n.fence,
                   &n.partial})
      *f = in.next();
    n.edges.resize(in.next());
    for (auto& edge : n.edges) {
      edge.resize(in.next());
      for (auto& s : edge) { s.producer = in.next(); s.loop = in.next(); s.distance = in.next(); }
    }
  }
  for (auto& l : p.loops) {
    for (i64* f : {&l.parent, &l.trips, &l.length, &l.offset, &l.reach}) *f = in.next();
    l.body = in.items();
  }
  p.body = in.items();
  p.chains.resize(p.loops.size());
  for (size_t i = 0; i < p.loops.size(); ++i) {
    for (i64 l = (i64)i; l >= 0; l = p.loops[l].parent) p.chains[i].push_back(l);
    std::reverse(p.chains[i].begin(), p.chains[i].end());
  }
  return p;
}

Unit read_unit(Reader& in) {
  Unit u;
  i64 programs = in.next();
  for (i64* f : {&u.warps, &u.blocks, &u.resident, &u.in_order, &u.oldest_first, &u.schedulers,
                 &u.width, &u.ticks, &u.ops, &u.pipes, &u.fast_forward, &u.limit, &u.origins})
    *f = in.next();
  for (i64 i = 0; i < u.warps; ++i) u.variant.push_back(in.next());
  for (i64 i = 0; i < u.pipes; ++i) u.per_scheduler.push_back(in.next());
  for (i64 i = 0; i < programs; ++i) u.programs.push_back(read_program(in));
  for (i64 i = 0; i < u.pipes; ++i) {
    u.copy.emplace_back();
    for (i64 s = 0; s < u.schedulers; ++s)
      u.copy.back().push_back(u.copies + (u.per_scheduler[i] ? s : 0));
    u.copies += u.per_scheduler[i] ? u.schedulers : 1;
  }
  return u;
}

struct Totals {
  i64 launched = 0, retired = 0, not_selected = 0, drained = 0, resident = 0;
  std::vector<i64> issued, busy, dependence, pipeline;

  template <class F> static void zip(Totals& a, const Totals& b, const Totals& c, F f) {
    f(a.launched, b.launched, c.launched);
    f(a.retired, b.retired, c.retired);
    f(a.not_selected, b.not_selected, c.not_selected);
    f(a.drained, b.drained, c.drained);
    f(a.resident, b.resident, c.resident);
    auto each = [&](std::vector<i64>& x, const std::vector<i64>& y, const std::vector<i64>& z) {
      for (size_t i = 0; i < x.size(); ++i) f(x[i], y[i], z[i]);
    };
    each(a.issued, b.issued, c.issued);
    each(a.busy, b.busy, c.busy);
    each(a.dependence, b.dependence, c.dependence);
    each(a.pipeline, b.pipeline, c.pipeline);
  }
  // Add `times` repetitions of what happened since `before`.
  void repeat(const Totals& before, i64 times) {
    Totals now = *this;
    zip(*this, now, before, [&](i64& a, i64 b, i64 c) { a = b + times * (b - c); });
  }
};

struct Result { i64 end = 0, simulated = 0, cut_short = 0, half_time = 0, half_count = 0; Totals totals; };

// Watches for interrupts and, where there is a limit, for its half and its end.
struct Watch {
  i64 limit, next_poll = 1 << 20;
  bool half = false;
  // Whether to stop now.
  bool over(i64 simulated, i64 now, const Totals& totals, Result& result) {
    if (simulated >= next_poll) {
      next_poll = simulated + (1 << 20);
      if (PyErr_CheckSignals()) throw std::runtime_error("interrupted");
    }
    if (!limit) return false;
    if (!half && simulated >= limit / 2) {
      half = true;
      result.half_time = now;
      for (i64 n : totals.issued) result.half_count += n;
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

// Without a next event there must be a block that is complete already (one without instructions).
void stuck(bool complete_now) {
  if (!complete_now) throw std::runtime_error("internal error: the simulation cannot go on");
}

i64 clip(i64 t, i64 now) { return t > now ? t - now : 0; }

// ---------------------------------------------------------------------------------- in order

// Code in a line: nodes, and the places where a loop begins and ends.
struct Step { enum Kind { kNode, kBegin, kEnd } kind; i64 index; i64 jump; };

// What the inner loop needs of a node, next to each other.
struct Op {
  i64 issue, completion;
  std::int32_t origin, op, pipe, first_use, last_use, first_fill, last_fill;
  bool fence, partial;
};

// The completion of a producer in the last iteration of the loops deeper than `level`, for the
// iterations of `level` that can still be asked for.
struct Port { i64 producer, level, size, at; };  // size: a power of two
// One source of an edge, laid out for the inner loop; `last`: no other source stands behind it.
struct Use { i64 at, mask, level, distance, origin; bool last; };
struct Fill { i64 at, mask, level, deeper, deeper_end; };  // deeper: loops that must be in their last

struct Code {
  const Program* program;
  std::vector<Step> steps;
  std::vector<Port> ports;
  std::vector<Use> uses;
  std::vector<Fill> fills;
  std::vector<i64> deeper;  // loops, by the ranges that fills name
  std::vector<Op> operations;
  i64 ring_words = 0;

  explicit Code(const Program& p) : program(&p) {
    line(p.body);
    std::map<std::pair<i64, i64>, i64> known;
    for (auto& n : p.nodes)
      for (auto& edge : n.edges)
        for (auto& source : edge) {
          auto found = known.emplace(std::make_pair(source.producer, source.loop), (i64)ports.size());
          if (found.second) ports.push_back({source.producer, source.loop, 1, 0});
          Port& port = ports[found.first->second];
          while (port.size < source.distance + 1) port.size *= 2;
        }
    for (auto& port : ports) { port.at = ring_words; ring_words += port.size; }
    for (size_t n = 0; n < p.nodes.size(); ++n) {
      const Node& node = p.nodes[n];
      Op made{node.issue, node.completion, (std::int32_t)node.origin, (std::int32_t)node.op, (std::int32_t)node.pipe,
              (std::int32_t)uses.size(), 0, (std::int32_t)fills.size(), 0, node.fence != 0,
              node.partial != 0};
      for (auto& edge : node.edges)
        for (auto& source : edge) {
          const Port& port = ports[known.at({source.producer, source.loop})];
          uses.push_back({port.at, port.size - 1, source.loop, source.distance,
                          p.nodes[source.producer].origin, &source == &edge.back()});
        }
      for (auto& port : ports)
        if (port.producer == (i64)n) add_fill(p, port);
      made.last_use = (std::int32_t)uses.size();
      made.last_fill = (std::int32_t)fills.size();
      operations.push_back(made);
    }
  }
  void add_fill(const Program& p, const Port& port) {
    Fill fill{port.at, port.size - 1, port.level, (i64)deeper.size(), 0};
    const auto& chain = p.chain(p.nodes[port.producer].loop);
    for (size_t i = chain.size(); i-- > 0 && chain[i] != port.level;) deeper.push_back(chain[i]);
    fill.deeper_end = (i64)deeper.size();
    fills.push_back(fill);
  }
  void line(const std::vector<Item>& body) {
    for (auto& item : body) {
      if (!item.is_loop) { steps.push_back({Step::kNode, item.index, 0}); continue; }
      steps.push_back({Step::kBegin, item.index, 0});
      i64 first = (i64)steps.size();
      line(program->loops[item.index].body);
      steps.push_back({Step::kEnd, item.index, first});
    }
  }
};

struct Warp {
  i64 pc = 0, ready = 0, head_since = 0, passed_over = 0, blamed = -1, last = 0, last_node = -1,
      fence = 0, fence_node = -1;
  bool finished = false, at_barrier = false, eligible = false;
};
struct Slot { bool live = false; i64 number = 0, arrived = 0, unfinished = 0, end = kNever; };

struct InOrderState {
  i64 now = 0, first_scheduler = 0, live_warps = 0, drained_warps = 0;
  std::vector<Warp> warps;
  std::vector<Slot> slots;
  std::vector<i64> free_at, last_served, used, used_at, opportunities;  // the last: [s][pipe]
  std::vector<i64> by_age;  // live slots, oldest block first
  std::vector<i64> loop_counters, loop_ordinals, all_rings;  // per warp, at a fixed stride
  Totals totals;
};

class InOrder {
 public:
  explicit InOrder(const Unit& unit) : u(unit) {
    for (auto& p : u.programs) codes.emplace_back(p);
    i64 n = u.resident * u.warps;
    for (auto& c : codes) {
      loop_stride = std::max(loop_stride, (i64)c.program->loops.size());
      ring_stride = std::max(ring_stride, c.ring_words);
    }
    s.loop_counters.assign(n * loop_stride, 0);
    s.loop_ordinals.assign(n * loop_stride, -1);
    s.all_rings.assign(n * ring_stride, 0);
    s.warps.resize(n);
    s.slots.resize(u.resident);
    s.free_at.assign(u.copies, 0);
    s.last_served.assign(u.schedulers, -1);
    s.used.assign(u.schedulers, 0);
    s.used_at.assign(u.schedulers, -1);
    s.opportunities.assign(u.schedulers * u.pipes, 0);
    s.totals.issued.assign(u.ops, 0);
    s.totals.dependence.assign(u.origins, 0);
    for (auto* v : {&s.totals.busy, &s.totals.pipeline}) v->assign(u.pipes, 0);
    words = (n + 63) / 64;
    eligible.assign(u.schedulers * u.pipes * words, 0);
    counts.assign(u.schedulers * u.pipes, 0);
    for (i64 w = 0; w < n; ++w) {
      code_of.push_back(&codes[u.variant[w % u.warps]]);
      scheduler_of.push_back(w % u.schedulers);
      slot_of.push_back(w / u.warps);
    }
    waiting.resize(u.schedulers);
    active.assign(u.schedulers, 0);
    for (i64 sched = 0; sched < u.schedulers; ++sched)
      for (i64 pipe = 0; pipe < u.pipes; ++pipe) copy_of.push_back(u.copy[pipe][sched]);
    due.assign(u.schedulers, 0);
    able_words.assign(words, 0);
    for (i64 w = u.warps; w-- > 0;)
      for (auto& chain : u.programs[u.variant[w]].chains)
        if ((i64)chain.size() >= depth) { depth = (i64)chain.size(); anchor = w; }
    loops.resize(depth);
  }

  Result run() {
    for (i64 i = 0; i < u.resident && i < u.blocks; ++i) launch(i);
    Watch watch{u.limit};
    while (true) {
      retire();
      if (s.by_age.empty()) break;
      issue_all();
      if (u.fast_forward) detect();
      i64 next = next_time();
      if (next == kNever) { stuck(complete_now()); continue; }
      s.totals.resident += s.live_warps * (next - s.now);
      s.totals.drained += s.drained_warps * (next - s.now);
      s.now = next;
      if (watch.over(simulated, s.now, s.totals, result)) break;
    }
    result.end = s.now;
    result.simulated = simulated;
    result.totals = s.totals;
    return result;
  }

 private:
  using Entry = std::pair<i64, i64>;  // time, warp
  using Heap = std::priority_queue<Entry, std::vector<Entry>, std::greater<Entry>>;
  const Unit& u;
  std::vector<Code> codes;
  InOrderState s;
  Result result;
  i64 words = 0, simulated = 0, depth = 0, anchor = 0, loop_stride = 1, ring_stride = 1;
  std::vector<std::uint64_t> eligible;  // [scheduler][pipe][word]
  std::vector<i64> counts;              // [scheduler][pipe]
  std::vector<const Code*> code_of;     // per warp of the unit, as the next two
  std::vector<i64> scheduler_of, slot_of;
  std::vector<i64> copy_of;             // [scheduler][pipe] -> number of the pipeline's copy
  i64 first_end = kNever;               // when the first live block is complete
  std::vector<std::uint64_t> active;    // per scheduler: pipes with eligible warps, as bits
  std::vector<std::uint64_t> able_words;
  std::vector<i64> due;                 // per scheduler: nothing can happen before
  std::vector<Heap> waiting;            // per scheduler: warps that will be ready
  std::vector<Detector<InOrderState>> loops;  // per depth
  Detector<InOrderState> grid;
  i64 flagged_depth = -1;
  bool flagged_grid = false;

  i64 scheduler(i64 w) const { return scheduler_of[w]; }
  const Code& code(i64 w) const { return *code_of[w]; }
  const Op& head(i64 w) const {
    const Code& c = code(w);
    return c.operations[c.steps[s.warps[w].pc].index];
  }
  i64 head_loop(i64 w) const {
    const Code& c = code(w);
    return c.program->nodes[c.steps[s.warps[w].pc].index].loop;
  }
  i64* counters(i64 w) { return &s.loop_counters[w * loop_stride]; }
  i64* ordinals(i64 w) { return &s.loop_ordinals[w * loop_stride]; }
  i64* rings(i64 w) { return &s.all_rings[w * ring_stride]; }
  const i64* counters(const InOrderState& t, i64 w) const { return &t.loop_counters[w * loop_stride]; }
  const i64* ordinals(const InOrderState& t, i64 w) const { return &t.loop_ordinals[w * loop_stride]; }
  const i64* rings(const InOrderState& t, i64 w) const { return &t.all_rings[w * ring_stride]; }
  std::uint64_t* mask(i64 sched, i64 pipe) { return &eligible[(sched * u.pipes + pipe) * words]; }

  void launch(i64 slot) {
    Slot& b = s.slots[slot];
    b = Slot();
    b.live = true;
    b.number = s.totals.launched++;
    s.by_age.push_back(slot);
    s.live_warps += u.warps;
    b.unfinished = u.warps;
    for (i64 w = slot * u.warps; w < (slot + 1) * u.warps; ++w) {
      Warp& warp = s.warps[w];
      warp = Warp();
      warp.head_since = warp.last = s.now;
      std::fill_n(counters(w), loop_stride, 0);
      std::fill_n(ordinals(w), loop_stride, -1);
      std::fill_n(rings(w), ring_stride, 0);
      warp.pc = -1;
      advance(w);
    }
  }

  void retire() {
    while (first_end <= s.now) {
      for (i64 slot = 0; slot < u.resident; ++slot) {
        Slot& b = s.slots[slot];
        if (!b.live || b.end > s.now) continue;
        b.live = false;
        ++s.totals.retired;
        s.live_warps -= u.warps;
        s.drained_warps -= u.warps;
        for (i64 w = slot * u.warps; w < (slot + 1) * u.warps; ++w)
          s.totals.drained -= slot_ticks() - clip(s.warps[w].head_since, s.now);
        s.by_age.erase(std::find(s.by_age.begin(), s.by_age.end(), slot));
        if (s.totals.launched < u.blocks) launch(slot);
        flagged_grid = true;
      }
      find_first_end();
    }
  }
  void find_first_end() {
    first_end = kNever;
    for (auto& b : s.slots)
      if (b.live) first_end = std::min(first_end, b.end);
  }
  // An issue takes the slot of a whole cycle where the issue width is one.
  i64 slot_ticks() const { return u.width == 1 ? u.ticks : 0; }

  // Move to the next node; loops that end or begin on the way are counted.
  void advance(i64 w) {
    Warp& warp = s.warps[w];
    const Code& c = code(w);
    i64 pc = warp.pc + 1;
    while (pc < (i64)c.steps.size() && c.steps[pc].kind != Step::kNode) {
      const Step& step = c.steps[pc];
      if (step.kind == Step::kBegin) {
        counters(w)[step.index] = 0;
        ++ordinals(w)[step.index];
        ++pc;
      } else if (counters(w)[step.index] + 1 < c.program->loops[step.index].trips) {
        ++counters(w)[step.index];
        ++ordinals(w)[step.index];
        if (slot_of[w] == s.by_age[0] && w == slot_of[w] * u.warps + anchor)
          flag((i64)c.program->chains[step.index].size() - 1);
        pc = step.jump;
      } else {
        ++pc;
      }
    }
    warp.pc = pc;
    if (pc == (i64)c.steps.size()) finish(w);
    else prepare(w);
  }
  void flag(i64 level) { flagged_depth = flagged_depth < 0 ? level : std::min(level, flagged_depth); }

  void finish(i64 w) {
    Warp& warp = s.warps[w];
    warp.finished = true;
    s.totals.drained += s.now - (warp.head_since - slot_ticks());  // since its own last issue
    ++s.drained_warps;
    Slot& b = s.slots[slot_of[w]];
    if (--b.unfinished == 0) {
      b.end = s.now;
      i64 first = slot_of[w] * u.warps;
      for (i64 v = first; v < first + u.warps; ++v)
        b.end = std::max({b.end, s.warps[v].last, s.warps[v].fence});
      first_end = std::min(first_end, b.end);
    }
  }

  // When the next instruction is ready, and who is to blame for the wait.
  void prepare(i64 w) {
    Warp& warp = s.warps[w];
    const Code& c = code(w);
    const Op& node = c.operations[c.steps[warp.pc].index];
    i64 when = warp.fence, who = warp.fence_node;
    auto wait = [&](i64 t, i64 node) {
      if (t > when || (t == when && node > who)) { when = t; who = node; }
    };
    const i64 *counter = counters(w), *ordinal = ordinals(w), *ring = rings(w);
    const Use* use = c.uses.data() + node.first_use;
    const Use* end = c.uses.data() + node.last_use;
    for (bool found = false; use != end; ++use) {
      if (!found && !(use->distance && counter[use->level] < use->distance)) {
        found = true;
        i64 place = (use->level < 0 ? 0 : ordinal[use->level]) - use->distance;
        wait(ring[use->at + (place & use->mask)], use->origin);
      }
      if (use->last) found = false;
    }
    if (node.fence && !node.partial) wait(warp.last, warp.last_node);
    warp.blamed = who;
    warp.ready = std::max({when, warp.head_since, s.now});
    i64 sched = scheduler(w);
    due[sched] = std::min(due[sched], warp.ready);
    if (warp.ready > s.now) waiting[sched].push({warp.ready, w});
    else admit(w);
  }

  void admit(i64 w) {
    Warp& warp = s.warps[w];
    i64 sched = scheduler(w), pipe = head(w).pipe;
    warp.eligible = true;
    warp.passed_over = s.opportunities[sched * u.pipes + pipe];
    mask(sched, pipe)[w / 64] |= 1ull << (w % 64);
    ++counts[sched * u.pipes + pipe];
    active[sched] |= 1ull << pipe;
  }

  void wake(i64 sched) {
    Heap& heap = waiting[sched];
    while (!heap.empty() && heap.top().first <= s.now) {
      i64 w = heap.top().second;
      heap.pop();
      admit(w);
    }
  }

  void issue_all() {
    for (i64 sched = 0; sched < u.schedulers; ++sched)
      if (due[sched] <= s.now) wake(sched);
    i64 first = s.first_scheduler;
    for (i64 i = 0; i < u.schedulers; ++i) {
      i64 sched = first + i < u.schedulers ? first + i : first + i - u.schedulers;
      if (due[sched] > s.now) continue;
      issue(sched);
      due[sched] = next_due(sched);
    }
  }

  // A bound: pipelines that others take meanwhile only make it later.
  i64 next_due(i64 sched) {
    i64 next = waiting[sched].empty() ? kNever : waiting[sched].top().first;
    for (std::uint64_t bits = active[sched]; bits; bits &= bits - 1) {
      i64 free = std::max(s.free_at[copy_of[sched * u.pipes + __builtin_ctzll(bits)]], s.now + 1);
      next = std::min(next, u.width ? whole_cycle(free) : free);
    }
    return next;
  }

  bool has_slot(i64 sched) {
    if (!u.width) return true;
    if (u.ticks > 1 && s.now % u.ticks) return false;
    if (s.used_at[sched] != s.now) { s.used_at[sched] = s.now; s.used[sched] = 0; }
    return s.used[sched] < u.width;
  }

  // The warp to issue next on a scheduler, or -1.
  i64 choose(i64 sched) {
    if (u.oldest_first) return choose_oldest(sched);
    i64 last = s.last_served[sched], best = -1, wrapped = -1;
    for (i64 word = 0; word < words; ++word) {
      std::uint64_t able = available(sched, word);
      if (!able) continue;
      if (wrapped < 0) wrapped = word * 64 + __builtin_ctzll(able);
      i64 from = last + 1 - word * 64;
      if (from > 0) able = from >= 64 ? 0 : able & (~0ull << from);
      if (able) { best = word * 64 + __builtin_ctzll(able); break; }
    }
    return best >= 0 ? best : wrapped;
  }
  std::uint64_t available(i64 sched, i64 word) {
    std::uint64_t able = 0;
    for (std::uint64_t bits = active[sched]; bits; bits &= bits - 1) {
      i64 pipe = __builtin_ctzll(bits);
      if (s.free_at[copy_of[sched * u.pipes + pipe]] <= s.now) able |= mask(sched, pipe)[word];
    }
    return able;
  }
  i64 choose_oldest(i64 sched) {
    i64 last = s.last_served[sched];
    bool any = false;
    for (i64 word = 0; word < words; ++word) any |= (able_words[word] = available(sched, word)) != 0;
    if (!any) return -1;
    if (last >= 0 && able_words[last / 64] >> (last % 64) & 1) return last;
    for (i64 slot : s.by_age)
      for (i64 w = slot * u.warps, end = w + u.warps; w < end;) {
        std::uint64_t rest = able_words[w / 64] >> (w % 64);
        if (!rest) { w = (w / 64 + 1) * 64; continue; }
        w += __builtin_ctzll(rest);
        if (w < end) return w;
      }
    return -1;
  }

  void issue(i64 sched) {
    while (has_slot(sched)) {
      i64 w = choose(sched);
      if (w < 0) return;
      if (u.width == 1)  // counted while somebody waits: only differences are ever used
        for (std::uint64_t bits = active[sched]; bits; bits &= bits - 1) {
          i64 pipe = __builtin_ctzll(bits);
          s.opportunities[sched * u.pipes + pipe] += s.free_at[copy_of[sched * u.pipes + pipe]] <= s.now;
        }
      s.last_served[sched] = w;
      s.first_scheduler = (sched + 1) % u.schedulers;
      issue_warp(w, sched);
    }
  }

  void issue_warp(i64 w, i64 sched) {
    Warp& warp = s.warps[w];
    const Code& c = code(w);
    const Op& node = c.operations[c.steps[warp.pc].index];
    account(warp, node, sched);
    warp.eligible = false;
    mask(sched, node.pipe)[w / 64] &= ~(1ull << (w % 64));
    if (--counts[sched * u.pipes + node.pipe] == 0) active[sched] &= ~(1ull << node.pipe);
    s.free_at[copy_of[sched * u.pipes + node.pipe]] = s.now + node.issue;
    ++s.used[sched];
    ++s.totals.issued[node.op];
    s.totals.busy[node.pipe] += node.issue;
    ++simulated;
    warp.head_since = s.now + slot_ticks();
    if (node.fence) { arrive(w, node); return; }
    complete_at(w, c, node, s.now + node.completion);
    advance(w);
  }

  void account(const Warp& warp, const Op& node, i64 sched) {
    i64 waited = warp.ready - warp.head_since, held = s.now - warp.ready;
    if (waited > 0) s.totals.dependence[warp.blamed] += waited;
    if (u.width == 1) {
      i64 count = s.opportunities[sched * u.pipes + node.pipe] - warp.passed_over - 1;
      i64 passed = std::min(held, count * u.ticks);
      s.totals.not_selected += passed;
      held -= passed;
    }
    s.totals.pipeline[node.pipe] += held;
  }

  // Note the completion for those who may ask for it.
  void complete_at(i64 w, const Code& c, const Op& node, i64 when) {
    Warp& warp = s.warps[w];
    if (when > warp.last || (when == warp.last && node.origin > warp.last_node)) {
      warp.last = when;
      warp.last_node = node.origin;
    }
    const i64 *counter = counters(w), *ordinal = ordinals(w);
    for (i64 i = node.first_fill; i < node.last_fill; ++i) {
      const Fill& fill = c.fills[i];
      bool last = true;
      for (i64 d = fill.deeper; d < fill.deeper_end; ++d)
        last = last && counter[c.deeper[d]] == c.program->loops[c.deeper[d]].trips - 1;
      i64 place = fill.level < 0 ? 0 : ordinal[fill.level];
      if (last) rings(w)[fill.at + (place & fill.mask)] = when;
    }
  }

  void arrive(i64 w, const Op& node) {
    Slot& b = s.slots[slot_of[w]];
    s.warps[w].at_barrier = true;
    if (++b.arrived < u.warps) return;
    b.arrived = 0;
    i64 when = s.now + node.completion;
    i64 first = slot_of[w] * u.warps;
    for (i64 v = first; v < first + u.warps; ++v) {
      Warp& other = s.warps[v];
      const Code& c = code(v);
      other.at_barrier = false;
      complete_at(v, c, c.operations[c.steps[other.pc].index], when);
      other.fence = when;
      other.fence_node = node.origin;
      advance(v);
    }
  }

  bool complete_now() const { return first_end <= s.now; }

  i64 whole_cycle(i64 t) const { return u.ticks == 1 ? t : (t + u.ticks - 1) / u.ticks * u.ticks; }

  i64 next_time() {
    if (complete_now()) return kNever;
    i64 next = first_end;
    for (i64 t : due) next = std::min(next, t);
    return next;
  }

  // ---- fast-forward

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

  void try_skip(Detector<InOrderState>& detector) {
    std::uint64_t hash = state_hash();
    if (detector.found(hash, [&](const InOrderState& before) { return skip(before); })) {
      detector.reset();
      return;
    }
    detector.remember(hash, s, state_bytes());
  }

  size_t state_bytes() const {
    return sizeof(i64) * (s.opportunities.size() + s.free_at.size() + 64 + s.loop_counters.size() +
                          s.loop_ordinals.size() + s.all_rings.size()) +
           sizeof(Warp) * s.warps.size();
  }

  std::uint64_t state_hash() const {
    Hash h;
    h.add(s.first_scheduler);
    for (i64 w : s.last_served) h.add(w);
    for (i64 t : s.free_at) h.add(clip(t, s.now));
    for (size_t w = 0; w < s.warps.size(); ++w) {
      const Warp& warp = s.warps[w];
      if (!s.slots[slot_of[w]].live) continue;
      h.add(warp.pc * 8 + warp.finished * 4 + warp.at_barrier * 2 + warp.eligible);
      h.add(clip(warp.last, s.now));
      const i64 *ordinal = ordinals(s, w), *ring = rings(s, w);
      for (auto& port : code_of[w]->ports) {
        i64 x = port.level < 0 ? 0 : ordinal[port.level];
        for (i64 i = 0; i < port.size; ++i)
          h.add(x - i < 0 ? 0 : clip(ring[port.at + ((x - i) & (port.size - 1))], s.now));
      }
    }
    return h.value;
  }

  // A time that lies equally far from now, or one that has not moved and lies in the past.
  bool same_time(i64 a, i64 now_a, i64 b, i64 now_b) const {
    return a - now_a == b - now_b || (a == b && a <= now_b);
  }

  bool same_warp(i64 w, const InOrderState& before) const {
    const Warp &a = s.warps[w], &b = before.warps[w];
    if (a.pc != b.pc || a.finished != b.finished || a.at_barrier != b.at_barrier ||
        a.eligible != b.eligible)
      return false;
    if (clip(a.last, s.now) != clip(b.last, before.now) ||
        clip(a.fence, s.now) != clip(b.fence, before.now))
      return false;
    if (a.last > s.now && a.last_node != b.last_node) return false;
    if (a.finished)
      return clip(a.head_since, s.now) == clip(b.head_since, before.now);
    if (!same_time(a.head_since, s.now, b.head_since, before.now)) return false;
    if (!a.at_barrier) {
      if (!same_time(a.ready, s.now, b.ready, before.now)) return false;
      if (a.ready > a.head_since && a.blamed != b.blamed) return false;
      if (a.eligible && u.width == 1) {
        i64 at = scheduler(w) * u.pipes + head(w).pipe;
        bool still = a.ready == b.ready;
        i64 x = s.opportunities[at] - a.passed_over, y = before.opportunities[at] - b.passed_over;
        if (still ? a.passed_over != b.passed_over : x != y) return false;
      }
    }
    return same_rings(w, before);
  }

  bool same_rings(i64 w, const InOrderState& before) const {
    const i64 *ordinal_a = ordinals(s, w), *ordinal_b = ordinals(before, w);
    const i64 *ring_a = rings(s, w), *ring_b = rings(before, w);
    for (auto& port : code(w).ports) {
      i64 x = port.level < 0 ? 0 : ordinal_a[port.level];
      i64 y = port.level < 0 ? 0 : ordinal_b[port.level];
      for (i64 i = 0; i < port.size; ++i) {
        i64 ta = x - i < 0 ? 0 : ring_a[port.at + ((x - i) & (port.size - 1))];
        i64 tb = y - i < 0 ? 0 : ring_b[port.at + ((y - i) & (port.size - 1))];
        if (clip(ta, s.now) != clip(tb, before.now)) return false;
      }
    }
    return true;
  }

  // How often the change since `before` can be repeated; counters may move in one loop per warp.
  i64 repetitions(const InOrderState& before) const {
    i64 blocks = s.totals.launched - before.totals.launched;
    i64 times = blocks ? (u.blocks - s.totals.launched) / blocks : kNever;
    bool moved = blocks > 0;
    for (size_t w = 0; w < s.warps.size(); ++w) {
      if (!s.slots[w / u.warps].live || s.warps[w].finished) continue;
      const i64 *now = counters(s, (i64)w), *then = counters(before, (i64)w);
      const Program& p = *code((i64)w).program;
      i64 shifted = -1;
      for (i64 loop : p.chain(head_loop((i64)w))) {
        i64 step = now[loop] - then[loop];
        if (step == 0) continue;
        if (step < 0 || shifted >= 0 || blocks) return 0;
        if (then[loop] < p.loops[loop].reach) return 0;
        shifted = loop;
        moved = true;
        times = std::min(times, (p.loops[loop].trips - 1 - now[loop]) / step);
      }
    }
    return moved ? times : 0;
  }

  bool same_unit(const InOrderState& before) const {
    if (s.first_scheduler != before.first_scheduler || s.last_served != before.last_served ||
        s.by_age != before.by_age)
      return false;
    if (u.width && (s.now - before.now) % u.ticks) return false;
    for (i64 c = 0; c < u.copies; ++c)
      if (clip(s.free_at[c], s.now) != clip(before.free_at[c], before.now)) return false;
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
    return true;
  }

  bool skip(const InOrderState& before) {
    if (s.now <= before.now || !same_unit(before)) return false;
    for (size_t w = 0; w < s.warps.size(); ++w)
      if (s.slots[w / u.warps].live && !same_warp((i64)w, before)) return false;
    i64 times = repetitions(before);
    if (times <= 0 || times == kNever) return false;
    shift(before, times);
    return true;
  }

  void shift(const InOrderState& before, i64 times) {
    i64 time = times * (s.now - before.now);
    i64 launched = times * (s.totals.launched - before.totals.launched);
    s.totals.repeat(before.totals, times);
    for (i64 i = 0; i < (i64)s.opportunities.size(); ++i)
      s.opportunities[i] += times * (s.opportunities[i] - before.opportunities[i]);
    for (size_t w = 0; w < s.warps.size(); ++w) shift_warp((i64)w, before, times, time);
    for (auto& t : s.free_at) t += time;
    for (auto& t : s.used_at) t += t == s.now ? time : 0;
    for (auto& b : s.slots) {
      b.number += launched;
      if (b.end != kNever) b.end += time;
    }
    s.now += time;
    find_first_end();
    for (i64 sched = 0; sched < u.schedulers; ++sched) {
      waiting[sched] = Heap();
      for (i64 w = sched; w < (i64)s.warps.size(); w += u.schedulers) {
        const Warp& warp = s.warps[w];
        if (s.slots[slot_of[w]].live && !warp.finished && !warp.at_barrier && !warp.eligible)
          waiting[sched].push({warp.ready, w});
      }
      due[sched] = next_due(sched);
    }
  }

  void shift_warp(i64 w, const InOrderState& before, i64 times, i64 time) {
    Warp& a = s.warps[w];
    const Warp& b = before.warps[w];
    if (!s.slots[w / u.warps].live) return;
    bool relative_ready = a.ready - s.now == b.ready - before.now;
    if (a.eligible && relative_ready && a.ready != b.ready) {
      i64 at = scheduler(w) * u.pipes + head(w).pipe;
      // opportunities are shifted already: the distance to them stays what it was
      i64 grown = (s.opportunities[at] - before.opportunities[at]) / (times + 1) * times;
      a.passed_over += grown;
    }
    if (a.finished || a.head_since - s.now == b.head_since - before.now) a.head_since += time;
    if (relative_ready) a.ready += time;
    a.last += time;
    a.fence += time;
    const Code& c = code(w);
    i64 *counter = counters(w), *ordinal = ordinals(w), *ring = rings(w);
    std::vector<i64> old_rings(ring, ring + ring_stride), old_ordinals(ordinal, ordinal + loop_stride);
    for (size_t i = 0; i < c.program->loops.size(); ++i) {
      ordinal[i] += times * (ordinal[i] - ordinals(before, w)[i]);
      counter[i] += times * (counter[i] - counters(before, w)[i]);
    }
    for (auto& port : c.ports) {
      i64 x = port.level < 0 ? 0 : old_ordinals[port.level], y = port.level < 0 ? 0 : ordinal[port.level];
      for (i64 i = 0; i < port.size && x - i >= 0; ++i)
        ring[port.at + ((y - i) & (port.size - 1))] =
            old_rings[port.at + ((x - i) & (port.size - 1))] + time;
    }
  }
};

// ---------------------------------------------------------------------------------- dataflow

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

struct FlowState {
  i64 now = 0, live_warps = 0;
  std::vector<FlowWarp> warps;
  std::vector<Slot> slots;
  std::vector<i64> free_at, last_served, used, used_at, by_age;
  Totals totals;
};

class Dataflow {
 public:
  explicit Dataflow(const Unit& unit) : u(unit) {
    i64 n = u.resident * u.warps;
    s.warps.resize(n);
    s.slots.resize(u.resident);
    s.free_at.assign(u.copies, 0);
    s.last_served.assign(u.copies, -1);
    s.used.assign(u.schedulers, 0);
    s.used_at.assign(u.schedulers, -1);
    s.totals.issued.assign(u.ops, 0);
    s.totals.dependence.assign(u.origins, 0);
    for (auto* v : {&s.totals.busy, &s.totals.pipeline}) v->assign(u.pipes, 0);
    able.resize(u.copies);
    for (i64 w = u.warps; w-- > 0;)
      for (auto& chain : program(w).chains)
        if ((i64)chain.size() >= depth) { depth = (i64)chain.size(); anchor = w; }
    loops.resize(depth);
    for (auto& p : u.programs) {
      fenced.emplace_back(p.loops.size(), 0);
      for (auto& node : p.nodes)
        if (node.fence)
          for (i64 loop : p.chain(node.loop)) fenced.back()[loop] = 1;
    }
  }

  Result run() {
    for (i64 i = 0; i < u.resident && i < u.blocks; ++i) launch(i);
    Watch watch{u.limit};
    while (true) {
      retire();
      if (s.by_age.empty()) break;
      issue_all();
      if (u.fast_forward) detect();
      i64 next = next_time();
      if (next == kNever) { stuck(complete_now()); continue; }
      s.totals.resident += s.live_warps * (next - s.now);
      s.now = next;
      complete_all();
      if (watch.over(simulated, s.now, s.totals, result)) break;
    }
    result.end = s.now;
    result.simulated = simulated;
    result.totals = s.totals;
    return result;
  }

 private:
  using Entry = std::tuple<i64, i64, i64>;  // time, warp, instruction
  using Heap = std::priority_queue<Entry, std::vector<Entry>, std::greater<Entry>>;
  const Unit& u;
  FlowState s;
  Result result;
  i64 simulated = 0, depth = 0, anchor = 0;
  std::vector<std::vector<char>> fenced;  // per program and loop: holds a barrier
  std::vector<std::set<i64>> able;        // per copy: warps with a ready instruction
  Heap completions;
  std::vector<Detector<FlowState>> loops;
  Detector<FlowState> grid;
  i64 flagged_depth = -1;
  bool flagged_grid = false;

  const Program& program(i64 w) const { return u.programs[u.variant[w % u.warps]]; }
  bool is_fenced(i64 w, i64 loop) const { return fenced[u.variant[w % u.warps]][loop]; }
  i64 copy_of(i64 w, i64 pipe) const { return u.copy[pipe][w % u.schedulers]; }

  void launch(i64 slot) {
    Slot& b = s.slots[slot];
    b = Slot();
    b.live = true;
    b.number = s.totals.launched++;
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
        ++s.totals.retired;
        s.live_warps -= u.warps;
        s.by_age.erase(std::find(s.by_age.begin(), s.by_age.end(), slot));
        if (s.totals.launched < u.blocks) { launch(slot); again = true; }
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

  bool has_slot(i64 sched) {
    if (!u.width) return true;
    if (u.ticks > 1 && s.now % u.ticks) return false;
    if (s.used_at[sched] != s.now) { s.used_at[sched] = s.now; s.used[sched] = 0; }
    return s.used[sched] < u.width;
  }

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
    s.free_at[copy] = s.now + node.issue;
    ++s.used[w % u.schedulers];
    ++s.totals.issued[node.op];
    s.totals.busy[node.pipe] += node.issue;
    ++simulated;
    ++warp.issued;
    warp.live[number].phase = Instruction::kFlying;
    warp.live[number].when = kNever;
    if (node.fence) arrive(w, node);
    else fly(w, number, s.now + node.completion);
    touch(w, number);
    offer_barrier(w);
    return true;
  }

  void fly(i64 w, i64 number, i64 when) {
    s.warps[w].live[number].when = when;
    completions.push(std::make_tuple(when, w, number));
  }

  void arrive(i64 w, const Node& node) {
    Slot& b = s.slots[w / u.warps];
    if (++b.arrived < u.warps) return;
    b.arrived = 0;
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
      if (watched && (number - x.start) % length == 0)
        flagged_depth = flagged_depth < 0 ? level : std::min(level, flagged_depth);
    }
    for (i64 id : around) extend(w, id);
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

  void try_skip(Detector<FlowState>& detector) {
    std::uint64_t hash = state_hash();
    if (detector.found(hash, [&](const FlowState& before) { return skip(before); })) {
      detector.reset();
      return;
    }
    detector.remember(hash, s, state_bytes());
  }

  size_t state_bytes() const {
    size_t entries = 0;
    for (auto& warp : s.warps) entries += 4 + warp.live.size() * 3 + warp.spaces.size() * 2;
    return entries * 64;
  }

  std::uint64_t state_hash() const {
    Hash h;
    for (i64 w : s.last_served) h.add(w);
    for (i64 t : s.free_at) h.add(clip(t, s.now));
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

  bool same_warp(i64 w, const FlowState& before, Moves& moves, i64& times) const {
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

  bool same_unit(const FlowState& before) const {
    if (s.last_served != before.last_served || s.by_age != before.by_age) return false;
    if (u.width && (s.now - before.now) % u.ticks) return false;
    for (i64 c = 0; c < u.copies; ++c)
      if (clip(s.free_at[c], s.now) != clip(before.free_at[c], before.now)) return false;
    if (u.width)
      for (i64 i = 0; i < u.schedulers; ++i) {
        i64 x = s.used_at[i] == s.now ? s.used[i] : 0;
        i64 y = before.used_at[i] == before.now ? before.used[i] : 0;
        if (x != y) return false;
      }
    for (size_t i = 0; i < s.slots.size(); ++i)
      if (s.slots[i].live != before.slots[i].live || s.slots[i].arrived != before.slots[i].arrived)
        return false;
    return true;
  }

  bool skip(const FlowState& before) {
    if (s.now <= before.now || !same_unit(before)) return false;
    i64 blocks = s.totals.launched - before.totals.launched;
    i64 times = blocks ? (u.blocks - s.totals.launched) / blocks : kNever;
    bool moved = blocks > 0;
    std::vector<Moves> moves(s.warps.size());
    for (size_t w = 0; w < s.warps.size(); ++w) {
      if (!s.slots[w / u.warps].live) continue;
      if (!same_warp((i64)w, before, moves[w], times)) return false;
      for (auto& m : moves[w]) {
        if (m.second && blocks) return false;
        moved |= m.second != 0;
      }
    }
    if (!moved || times <= 0 || times == kNever) return false;
    shift(before, times, moves);
    return true;
  }

  void shift(const FlowState& before, i64 times, const std::vector<Moves>& moves) {
    i64 time = times * (s.now - before.now);
    i64 launched = times * (s.totals.launched - before.totals.launched);
    s.totals.repeat(before.totals, times);
    completions = Heap();
    for (size_t w = 0; w < s.warps.size(); ++w)
      if (s.slots[w / u.warps].live) shift_warp((i64)w, times, time, moves[w]);
    for (auto& t : s.free_at) t += time;
    for (auto& t : s.used_at) t += t == s.now ? time : 0;
    for (auto& b : s.slots) b.number += launched;
    s.now += time;
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

// ---------------------------------------------------------------------------------- Python

PyObject* simulate(PyObject*, PyObject* argument) {
  char* data = nullptr;
  Py_ssize_t size = 0;
  if (PyBytes_AsStringAndSize(argument, &data, &size) < 0) return nullptr;
  try {
    Reader in{reinterpret_cast<const i64*>(data), reinterpret_cast<const i64*>(data + size)};
    Unit unit = read_unit(in);
    Result r = unit.in_order ? InOrder(unit).run() : Dataflow(unit).run();
    std::vector<i64> out{r.end, r.simulated, r.cut_short, r.half_time, r.half_count, r.totals.launched, r.totals.retired,
                         r.totals.not_selected, r.totals.drained, r.totals.resident};
    for (auto* v : {&r.totals.issued, &r.totals.busy, &r.totals.dependence, &r.totals.pipeline})
      out.insert(out.end(), v->begin(), v->end());
    return PyBytes_FromStringAndSize(reinterpret_cast<const char*>(out.data()),
                                     (Py_ssize_t)(out.size() * sizeof(i64)));
  } catch (const std::exception& error) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_RuntimeError, error.what());
    return nullptr;
  }
}

PyMethodDef methods[] = {
    {"simulate", simulate, METH_O, "Simulate a unit given as packed 64-bit integers."},
    {nullptr, nullptr, 0, nullptr}};
PyModuleDef module = {PyModuleDef_HEAD_INIT, "_core", nullptr, -1, methods,
                      nullptr, nullptr, nullptr, nullptr};

}  // namespace

extern "C" PyObject* PyInit__core() { return PyModule_Create(&module); }
