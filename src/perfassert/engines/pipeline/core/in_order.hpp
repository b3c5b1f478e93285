// Warps issue in program order; each scheduler picks one of its warps at a time.
#pragma once

#include "code.hpp"
#include "fast_forward.hpp"

namespace perfassert {

// What times depend on stands in one cache line, what stalls are told by behind it. `resume`: not
// before its last issue's stall is over.
struct alignas(64) Warp {
  i64 pc = 0, ready = 0, head_since = 0, last = 0, fence = 0, resume = 0, pipe = 0;
  bool finished = false, at_barrier = false, eligible = false;
  i64 passed_over = 0, blamed = -1, last_node = -1, fence_node = -1, blamed_use = -1, issued_at = -1;
};

template <class Heard> struct InOrderState : UnitState<Heard> {
  using UnitState<Heard>::UnitState;
  i64 first_scheduler = 0, drained_warps = 0;
  std::vector<Warp> warps;
  std::vector<i64> opportunities;                            // [scheduler][pipe]
  std::vector<i64> queued;                                   // [copy][place]: when it was served
  std::vector<i64> loop_counters, loop_ordinals, all_rings;  // per warp, at a fixed stride
};

// `narrow`: at most 64 warps, and one issue at a whole cycle; then masks are single words.
inline bool narrow(const Unit& u) { return u.width == 1 && u.resident * u.warps <= 64; }

template <class Heard, bool kNarrow>
class InOrder : public Engine<InOrder<Heard, kNarrow>, InOrderState<Heard>> {
  using State = InOrderState<Heard>;
  using Base = Engine<InOrder, State>;
  friend Base;
  using Base::u, Base::s, Base::simulated, Base::anchor, Base::flagged_grid;
  using Base::cycle, Base::tell, Base::flag, Base::has_slot, Base::same_unit, Base::shift_unit, Base::occupy, Base::busy;
  using Base::keeps_phases, Base::hash_channels, Base::channel_bytes;

 public:
  static constexpr size_t kCompared = 0;  // the states of warps in order stay small

  explicit InOrder(const Unit& unit) : Base(unit, unit.schedulers) {
    i64 nodes = 0, uses = 0;
    for (auto& p : u.programs) {
      codes.emplace_back(p, nodes, uses);
      nodes += (i64)codes.back().operations.size();
      uses += (i64)codes.back().uses.size();
    }
    for (i64 d : u.depth) depth_of_queue = std::max(depth_of_queue, d);
    s.queued.assign(u.copies * depth_of_queue, 0);
    i64 n = u.resident * u.warps;
    for (auto& c : codes) {
      loop_stride = std::max(loop_stride, (i64)c.program->loops.size());
      ring_stride = std::max(ring_stride, c.ring_words);
    }
    s.loop_counters.assign(n * loop_stride, 0);
    s.loop_ordinals.assign(n * loop_stride, -1);
    s.all_rings.assign(n * ring_stride, 0);
    s.warps.resize(n);
    s.opportunities.assign(u.schedulers * u.pipes, 0);
    words = (n + 63) / 64;
    eligible.assign(u.schedulers * u.pipes * words, 0);
    for (i64 sched = 0; sched < u.schedulers; ++sched)
      for (i64 pipe = 0; pipe < u.pipes; ++pipe) copy_of.push_back(u.copy[pipe][sched]);
    i64 longest = (n + u.schedulers - 1) / u.schedulers;
    waiting.resize(u.schedulers * longest);
    for (i64 sched = 0; sched < u.schedulers; ++sched) {
      i64 lanes = sched * u.pipes;
      schedulers.push_back({&waiting[sched * longest], 0, 0, &copy_of[lanes], &eligible[lanes * words], &s.opportunities[lanes], 0});
    }
    for (i64 w = 0; w < n; ++w) {
      const Code& c = codes[u.variant[w % u.warps]];
      places.push_back({&c, c.operations.data(), &s.all_rings[w * ring_stride], w % u.schedulers, w / u.warps, w});
      warp_at.push_back(w);
    }
    due.assign(u.schedulers, 0);
    able.assign(words, 0);
  }

 private:
  std::vector<Code> codes;
  i64 words = 0, loop_stride = 1, ring_stride = 1, depth_of_queue = 0;
  std::vector<std::uint64_t> eligible;  // [scheduler][pipe][word]
  std::vector<i64> copy_of;             // [scheduler][pipe] -> number of the pipeline's copy
  i64 first_end = kNever;               // when the first live block is complete
  std::vector<std::uint64_t> able;      // warps that a scheduler can issue now
  std::vector<i64> due;                 // per scheduler: nothing can happen before
  struct Wait { i64 until; std::int32_t warp, pipe; };
  std::vector<Wait> waiting;            // [scheduler][place]
  // What belongs to a scheduler: those who wait, pipelines with eligible warps as bits, and its part
  // of what has [scheduler][pipe].
  struct Scheduler {
    Wait* line;
    i64 count;
    std::uint64_t active;
    const i64* copies;
    std::uint64_t* eligible;
    i64* opportunities;
    std::uint64_t preferred;  // who goes first in a unit of one word, as far as able
  };
  std::vector<Scheduler> schedulers;
  // Where a warp of the unit belongs; `bit`: in masks, where the oldest stand first if that counts.
  struct Place { const Code* code; const Op* operations; i64* ring; i64 scheduler, slot, bit; };
  std::vector<Place> places;
  static constexpr i64 kUsual = 4;      // schedulers: loops over so many are unrolled
  bool released = false;                // a warp has become ready at once, perhaps another scheduler's
  i64 last_issuer = -1;                 // scheduler
  std::vector<i64> warp_at;             // whose bit it is

  i64 scheduler(i64 w) const { return places[w].scheduler; }
  i64 slot_of(i64 w) const { return places[w].slot; }
  i64 block_of(i64 w) const { return s.slots[slot_of(w)].number; }
  const Code& code(i64 w) const { return *places[w].code; }
  i64 word_count() const { return kNarrow ? 1 : words; }
  bool one_slot() const { return kNarrow || u.width == 1; }
  const Op& head(i64 w) const {
    return code(w).operations[s.warps[w].pc];
  }
  i64 head_loop(i64 w) const {
    const Code& c = code(w);
    return c.program->nodes[c.rest[s.warps[w].pc].number].loop;
  }
  i64* counters(i64 w) { return &s.loop_counters[w * loop_stride]; }
  i64* ordinals(i64 w) { return &s.loop_ordinals[w * loop_stride]; }
  i64* rings(i64 w) { return places[w].ring; }
  const i64* counters(const State& t, i64 w) const { return &t.loop_counters[w * loop_stride]; }
  const i64* ordinals(const State& t, i64 w) const { return &t.loop_ordinals[w * loop_stride]; }
  const i64* rings(const State& t, i64 w) const { return &t.all_rings[w * ring_stride]; }
  bool none(const std::uint64_t* first) const {
    return std::all_of(first, first + words, [](std::uint64_t word) { return word == 0; });
  }

  void launch(i64 slot) {
    Slot& b = s.slots[slot];
    b = Slot();
    b.live = true;
    b.number = s.launched++;
    b.channels.resize(u.arrivals.size());
    tell(Launched{s.now, b.number, slot * u.warps});
    s.by_age.push_back(slot);
    order_by_age();
    s.live_warps += u.warps;
    b.unfinished = u.warps;
    for (i64 w = slot * u.warps; w < (slot + 1) * u.warps; ++w) {
      Warp& warp = s.warps[w];
      warp = Warp();
      warp.head_since = warp.last = s.now;
      if (b.number < u.resident) warp.resume = s.now + b.number * u.stagger;
      std::fill_n(counters(w), loop_stride, 0);
      std::fill_n(ordinals(w), loop_stride, -1);
      std::fill_n(rings(w), ring_stride, 0);
      walk(w, 0);
    }
  }

  void retire() {
    while (first_end <= s.now) {
      for (i64 slot = 0; slot < u.resident; ++slot) {
        Slot& b = s.slots[slot];
        if (!b.live || b.end > s.now) continue;
        b.live = false;
        tell(Retired{s.now, b.number});
        s.live_warps -= u.warps;
        s.drained_warps -= u.warps;
        for (i64 w = slot * u.warps; w < (slot + 1) * u.warps; ++w)
          tell(Drained{clip(s.warps[w].head_since, s.now) - slot_ticks()});
        s.by_age.erase(std::find(s.by_age.begin(), s.by_age.end(), slot));
        if (s.launched < u.blocks) launch(slot);
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
  i64 slot_ticks() const { return one_slot() ? u.ticks : 0; }

  [[gnu::always_inline]] void advance(i64 w, const Code& c) {
    Warp& warp = s.warps[w];
    if (__builtin_expect(c.operations[warp.pc].followed, 1)) { ++warp.pc; prepare(w); }
    else walk(w, c.rest[warp.pc].step + 1);
  }

  // From a step on to the next node; loops that end or begin on the way are counted.
  void walk(i64 w, i64 at) {
    const Code& c = code(w);
    while (at < (i64)c.steps.size() && c.steps[at].kind != Step::kNode) {
      const Step& step = c.steps[at];
      if (step.kind == Step::kBegin) {
        counters(w)[step.index] = 0;
        ++ordinals(w)[step.index];
        ++at;
      } else if (counters(w)[step.index] + 1 < c.program->loops[step.index].trips) {
        ++counters(w)[step.index];
        ++ordinals(w)[step.index];
        if (slot_of(w) == s.by_age[0] && w == slot_of(w) * u.warps + anchor)
          flag((i64)c.program->chains[step.index].size() - 1);
        at = step.jump;
      } else {
        ++at;
      }
    }
    if (at == (i64)c.steps.size()) { finish(w); return; }
    s.warps[w].pc = c.steps[at].index;
    prepare(w);
  }

  void finish(i64 w) {
    Warp& warp = s.warps[w];
    warp.finished = true;
    tell(Drained{s.now - (warp.head_since - slot_ticks())});  // since its own last issue
    ++s.drained_warps;
    Slot& b = s.slots[slot_of(w)];
    if (--b.unfinished == 0) {
      b.end = s.now;
      i64 first = slot_of(w) * u.warps;
      for (i64 v = first; v < first + u.warps; ++v)
        b.end = std::max({b.end, s.warps[v].last, s.warps[v].fence});
      first_end = std::min(first_end, b.end);
    }
  }

  // The latest of several times and, where that is heard, who it is of; among equal ones the last of
  // the graph.
  struct Latest {
    i64 when, who, by;
    void add(i64 t, i64 node, i64 use) {
      bool later = (t > when) | ((t == when) & (node > who));
      when = std::max(t, when);
      if (!Heard::kStalls) return;
      who = either(later, node, who);
      by = either(later, use, by);
    }
  };

  // When the next instruction is ready, and who is to blame for the wait.
  [[gnu::always_inline]] void look_ahead(i64 w, Warp& warp, const Place& place) {
    const Op& op = place.operations[warp.pc];
    const i64* ring = place.ring;
    Latest found{warp.fence, warp.fence_node, -1};
    if (__builtin_expect(op.plain, 1))
      for (int i = 0; i < Op::kPlain; ++i) found.add(ring[op.use_at[i]], op.use_origin[i], i);
    else
      add_uses(w, *place.code, found);
    warp.head_since = std::max(warp.head_since, warp.resume);
    warp.pipe = op.pipe;
    if (Heard::kStalls) {
      warp.blamed = found.who;
      warp.blamed_use = found.by;
    }
    warp.ready = std::max({found.when, warp.head_since, s.now});
  }
  void prepare(i64 w) {
    Warp& warp = s.warps[w];
    look_ahead(w, warp, places[w]);
    i64 sched = scheduler(w);
    due[sched] = std::min(due[sched], slot_from(warp.ready));
    if (__builtin_expect(warp.ready <= s.now, 0)) { released = true; admit(w, schedulers[sched]); return; }
    wait(warp, w, schedulers[sched]);
  }

  void add_uses(i64 w, const Code& c, Latest& latest) {
    const Warp& warp = s.warps[w];
    const Op& op = c.operations[warp.pc];
    const i64 *counter = counters(w), *ordinal = ordinals(w), *ring = rings(w);
    const Use* first = c.uses.data() + c.rest[warp.pc].first_use;
    const Use* end = c.uses.data() + c.rest[warp.pc].last_use;
    bool found = false;
    for (const Use* use = first; use != end; ++use) {
      if (!found && !(use->distance && counter[use->level] < use->distance)) {
        found = true;
        i64 place = (use->level < 0 ? 0 : ordinal[use->level]) - use->distance;
        latest.add(ring[use->at + (place & use->mask)], use->origin, use - first);
      }
      if (use->last) found = false;
    }
    if (op.fence && !op.partial) latest.add(warp.last, warp.last_node, -1);
  }

  void admit(i64 w, Scheduler& at) {
    Warp& warp = s.warps[w];
    const i64 pipe = warp.pipe, bit = places[w].bit;
    warp.eligible = true;
    tell(Ready{w, scheduler(w)});
    warp.passed_over = at.opportunities[pipe];
    at.eligible[pipe * word_count() + (kNarrow ? 0 : bit >> 6)] |= 1ull << (bit & 63);
    at.active |= 1ull << pipe;
  }

  // Warps that will be ready stand in line, the first one last: most come in near there.
  void wait(const Warp& warp, i64 w, Scheduler& at) {
    Wait* place = at.line + at.count++;
    for (; place > at.line && place[-1].until < warp.ready; --place) *place = place[-1];
    *place = {warp.ready, (std::int32_t)w, (std::int32_t)warp.pipe};
  }
  void wake(Scheduler& at) {
    while (at.count && at.line[at.count - 1].until <= s.now) admit(at.line[--at.count].warp, at);
  }

  // Schedulers take turns in going first. Those that are due are found at once: whether the next
  // one is among them nobody can foresee.
  void issue_all() {
    const i64 count = u.schedulers, first = s.first_scheduler;
    if (count == 1) { issue_due(0); return; }
    released = false;
    last_issuer = first - 1;
    for (i64 turn = 0; turn < count && count > 64; ++turn) issue_due((first + turn) % count);
    for (std::uint64_t turns = count > 64 ? 0 : due_from(first); turns;) {
      i64 turn = __builtin_ctzll(turns), sched = first + turn;
      turns &= turns - 1;
      visit(sched < count ? sched : sched - count);
      if (__builtin_expect(released, 0)) turns = due_from(first) & ~1ull << turn;  // only those whose turn is to come
      released = false;
    }
    s.first_scheduler = either(last_issuer + 1 == count, 0, last_issuer + 1);
  }
  void issue_due(i64 sched) {
    if (due[sched] <= s.now) visit(sched);
  }
  [[gnu::always_inline]] void visit(i64 sched) {
    Scheduler& at = schedulers[sched];
    wake(at);
    issue(sched, at);
    due[sched] = next_due(at);
  }
  // Those that are due, as bits, beginning with the one that goes first.
  std::uint64_t due_from(i64 first) const {
    const i64 *at = due.data(), count = u.schedulers, now = s.now;
    std::uint64_t some = 0;
    auto add = [&](i64 sched) { some |= (std::uint64_t)(at[sched] <= now) << sched; };
    if (count == kUsual) for (i64 sched = 0; sched < kUsual; ++sched) add(sched);
    else for (i64 sched = 0; sched < count; ++sched) add(sched);
    return (some >> first | some << ((count - first) & 63)) & ~0ull >> (64 - count);
  }

  // The first issue slot that does not lie before a time.
  i64 slot_from(i64 t) const { return u.width ? cycle.up(t) : t; }

  // A bound: pipelines that others take meanwhile only make it later. A warp that will be ready
  // before its pipeline is free need not be looked at then, unless somebody hears it.
  [[gnu::always_inline]] i64 next_due(const Scheduler& at) {
    i64 due = kNever;
    const i64* free_at = s.free_at.data();
    for (std::uint64_t bits = at.active; bits; bits &= bits - 1)
      due = std::min(due, free_at[at.copies[__builtin_ctzll(bits)]]);
    due = std::max(due, s.now + 1);
    for (const Wait* next = at.line + at.count; next-- > at.line && next->until < due;)
      due = Heard::kAttributes ? next->until : std::min(due, std::max(next->until, free_at[at.copies[next->pipe]]));
    return slot_from(due);
  }

  // The last one served or, in turns, those after it.
  void prefer(i64 last, Scheduler& at) {
    at.preferred = u.oldest_first ? 1ull << (places[last].bit & 63) : ~1ull << (last & 63);
  }

  // Where warps stand in the masks: by index, or from the oldest block to the youngest.
  void order_by_age() {
    if (!u.oldest_first) return;
    i64 at = 0;
    for (i64 slot : s.by_age)
      for (i64 w = slot * u.warps; w < (slot + 1) * u.warps; ++w, ++at) { places[w].bit = at; warp_at[at] = w; }
    std::fill(eligible.begin(), eligible.end(), 0);
    for (i64 place = 0; place < at; ++place) {
      i64 w = warp_at[place];
      std::uint64_t* masks = schedulers[scheduler(w)].eligible;
      if (s.warps[w].eligible) masks[s.warps[w].pipe * words + place / 64] |= 1ull << (place % 64);
    }
    for (i64 sched = 0; sched < u.schedulers; ++sched)
      if (s.last_served[sched] >= 0) prefer(s.last_served[sched], schedulers[sched]);
  }

  // A warp that could have issued a whole cycle ago and found its pipeline occupied.
  bool held(const Warp& warp, i64 now) const { return now - warp.ready >= (u.width ? u.ticks : 1); }

  // The warp to issue next on a scheduler, or -1: the last one served until it is held, or else the
  // oldest, or the next one after the last one served. An issue is an opportunity for all whose pipeline is free.
  [[gnu::always_inline]] i64 choose(i64 sched, Scheduler& at) {
    return kNarrow || words == 1 ? choose_in_word(at) : choose_in_words(sched, at);
  }
  [[gnu::noinline]] i64 choose_in_words(i64 sched, Scheduler& at) {
    i64 last = s.last_served[sched];
    bool any = false;
    std::fill(able.begin(), able.end(), 0);
    for (std::uint64_t bits = at.active; bits; bits &= bits - 1) {
      i64 pipe = __builtin_ctzll(bits);
      if (s.free_at[at.copies[pipe]] > s.now) continue;
      for (i64 word = 0; word < words; ++word) able[word] |= at.eligible[pipe * words + word];
      at.opportunities[pipe] += Heard::kStalls && u.width == 1;
      any = true;
    }
    if (!any) return -1;
    if (u.oldest_first) {
      i64 bit = last < 0 ? 0 : places[last].bit;
      bool goes_on = last >= 0 && able[bit / 64] >> (bit % 64) & 1 && !held(s.warps[last], s.now);
      return goes_on ? last : warp_at[first_from(0)];
    }
    i64 following = first_from(last + 1);
    return following >= 0 ? following : first_from(0);
  }
  // The same without loops over words and with hardly a branch: what is not meant is masked.
  [[gnu::always_inline]] i64 choose_in_word(Scheduler& at) {
    const i64 now = s.now, counted = Heard::kStalls && one_slot();
    const i64* free_at = s.free_at.data();
    std::uint64_t able = 0;
    for (std::uint64_t bits = at.active; bits; bits &= bits - 1) {
      i64 pipe = __builtin_ctzll(bits), free = free_at[at.copies[pipe]] <= now;
      able |= at.eligible[pipe] & -(std::uint64_t)free;
      at.opportunities[pipe] += free & counted;
    }
    if (__builtin_expect(!able, 0)) return -1;
    std::uint64_t first = able & at.preferred;
    if (u.oldest_first && first && held(s.warps[warp_at[__builtin_ctzll(first)]], now)) first = 0;
    return warp_at[__builtin_ctzll(first ? first : able)];
  }
  // The first able place that is not below `from`, or -1.
  i64 first_from(i64 from) const {
    if (from >= words * 64) return -1;
    std::uint64_t rest = able[from / 64] & (~0ull << (from % 64));
    for (i64 word = from / 64;;) {
      if (rest) return word * 64 + __builtin_ctzll(rest);
      if (++word == words) return -1;
      rest = able[word];
    }
  }

  [[gnu::always_inline]] void issue(i64 sched, Scheduler& at) {
    while (kNarrow ? cycle.begins(s.now) && s.used_at[sched] != s.now : has_slot(sched)) {
      i64 w = choose(sched, at);
      if (w < 0) return;
      s.last_served[sched] = w;
      prefer(w, at);
      last_issuer = sched;
      issue_warp(w, sched, at);
      if (one_slot()) return;
    }
  }

  [[gnu::always_inline]] void issue_warp(i64 w, i64 sched, Scheduler& at) {
    Warp& warp = s.warps[w];
    const Place& place = places[w];
    const Code& c = *place.code;
    const Op& node = place.operations[warp.pc];
    if (Heard::kStalls) tell_stalls(warp, c, node, at);
    warp.eligible = false;
    std::uint64_t* mask = at.eligible + node.pipe * word_count();
    std::uint64_t& word = mask[kNarrow ? 0 : place.bit >> 6];
    word &= ~(1ull << (place.bit & 63));
    bool empty = word == 0;
    if (word_count() > 1) empty = none(mask);
    at.active &= ~((std::uint64_t)empty << node.pipe);
    i64 copy = at.copies[node.pipe];
    occupy(copy, node.issue);
    i64 done = node.served ? serve(c, node, at, copy) : s.now;
    if (kNarrow) { s.used_at[sched] = s.now; s.used[sched] = 1; }
    else ++s.used[sched];
    ++simulated;
    tell(Issued{s.now, block_of(w), w, sched, c.first_node + c.rest[warp.pc].number,
                node.origin, node.op, node.pipe, node.issue});
    warp.head_since = s.now + slot_ticks();
    if (Heard::kStalls) warp.issued_at = warp.head_since;
    warp.resume = s.now + node.stall;
    if (node.signals && signal(w, c, node, done + node.completion)) return;
    if (__builtin_expect(node.fence, 0)) { arrive(w, node); return; }
    complete_at(w, c, node, done + node.completion);
    if (!kNarrow || !node.followed) { advance(w, c); return; }
    ++warp.pc;  // as `advance`, where it is known who is due and that it has to wait
    look_ahead(w, warp, place);
    wait(warp, w, at);
  }

  // Pass the servers one after the other; the queue before the first one has so many places.
  // Returns when the last one is done, or the first one where nobody waits for a result.
  i64 serve(const Code& c, const Op& node, const Scheduler& own, i64 copy) {
    i64 at = s.now, first = 0, taken = 0;
    const Rest& more = c.rest[&node - c.operations.data()];
    for (i64 i = more.first_demand; i < more.last_demand; ++i) {
      const Demand& demand = c.demands[i];
      i64& free = s.free_at[own.copies[demand.pipe]];
      i64 start = std::max(at, free);
      at = free = start + demand.ticks;
      tell(Served{demand.pipe, demand.ticks});
      if (i == more.first_demand) { taken = start; first = at; }
    }
    i64 depth = u.depth[node.pipe];
    if (depth > 0) {
      i64* places = &s.queued[copy * depth_of_queue];
      for (i64 i = 1; i < depth; ++i) places[i - 1] = places[i];
      places[depth - 1] = taken;
      s.free_at[copy] = std::max(s.free_at[copy], places[0]);
    }
    return node.produces ? at : first;
  }

  // Where the time since the warp's last issue went.
  void tell_stalls(const Warp& warp, const Code& c, const Op& node, const Scheduler& at) {
    i64 stall = warp.issued_at < 0 ? 0 : warp.head_since - warp.issued_at;
    i64 waited = warp.ready - warp.head_since, held = s.now - warp.ready, passed = 0;
    if (one_slot()) {
      i64 count = at.opportunities[node.pipe] - warp.passed_over - 1;
      passed = std::min(held, count * u.ticks);
    }
    bool by_fence = warp.blamed_use < 0;
    i64 use = either(by_fence, -1, c.first_use + c.rest[warp.pc].first_use + warp.blamed_use);
    tell(Stalled{Stalled::kStallCount, node.pipe, stall, -1, -1});
    tell(Stalled{by_fence ? Stalled::kBarrier : Stalled::kDependence, node.pipe, waited, warp.blamed, use});
    tell(Stalled{Stalled::kNotSelected, node.pipe, passed, -1, -1});
    tell(Stalled{Stalled::kPipeline, node.pipe, held - passed, -1, -1});
  }

  // Note the completion for those who may ask for it.
  [[gnu::always_inline]] void complete_at(i64 w, const Code& c, const Op& node, i64 when) {
    const Place& place = places[w];
    Warp& warp = s.warps[w];
    i64* ring = place.ring;
    ring[node.fill_at] = when;
    bool later = (when > warp.last) | ((when == warp.last) & (node.origin > warp.last_node));
    warp.last = std::max(when, warp.last);
    if (Heard::kStalls) warp.last_node = either(later, node.origin, warp.last_node);
    tell(Completed{when, block_of(w), w, node.origin});
    if (__builtin_expect(!node.more_fills, 1)) return;
    const i64 *counter = counters(w), *ordinal = ordinals(w);
    const Rest& more = c.rest[&node - c.operations.data()];
    for (i64 i = more.first_fill; i < more.last_fill; ++i) {
      const Fill& fill = c.fills[i];
      bool last = true;
      for (i64 d = fill.deeper; d < fill.deeper_end; ++d)
        last = last && counter[c.deeper[d]] == c.program->loops[c.deeper[d]].trips - 1;
      i64 turn = fill.level < 0 ? 0 : ordinal[fill.level];
      if (last) ring[fill.at + (turn & fill.mask)] = when;
    }
  }

  // What an issue means to a channel; whether the warp waits there.
  bool signal(i64 w, const Code& c, const Op& op, i64 when) {
    const Node& node = c.program->nodes[c.rest[&op - c.operations.data()].number];
    const Signal& signal = node.signal;
    Channel& channel = s.slots[slot_of(w)].channels[(size_t)signal.channel];
    i64 phase = signal.first;
    const auto& chain = c.program->chain(node.loop);
    for (size_t i = 0; i < chain.size(); ++i) phase += signal.steps[i] * counters(w)[chain[i]];
    if (signal.arrives || signal.copies) {
      const i64 needed = u.arrivals[(size_t)signal.channel];
      Phase* decided = signalled(channel, signal, phase, needed, signal.waits ? s.now : when, s.now);
      if (decided) release(*decided);
    }
    if (!signal.waits) return false;
    s.warps[w].at_barrier = true;
    i64 end;
    if (channel.known(phase, s.now, end)) go_on(w, end);
    else channel.at(phase).waiters.push_back(w);
    return true;
  }

  void release(Phase& phase) {
    std::vector<i64> waiters = std::move(phase.waiters);
    phase.waiters.clear();
    const i64 when = std::max(s.now, phase.when);
    for (i64 w : waiters) go_on(w, when);
  }

  // The phase that a warp waits for is complete at a time.
  void go_on(i64 w, i64 when) {
    Warp& warp = s.warps[w];
    const Code& c = code(w);
    const Op& op = c.operations[warp.pc];
    warp.at_barrier = false;
    complete_at(w, c, op, when + op.completion);
    warp.fence = when + op.completion;
    warp.fence_node = op.origin;
    advance(w, c);
  }

  // Of a warp that waits where nothing can happen any more.
  i64 waiting_node() const {
    for (size_t w = 0; w < s.warps.size(); ++w)
      if (s.slots[slot_of(w)].live && s.warps[w].at_barrier) return head((i64)w).origin;
    return -1;
  }

  void arrive(i64 w, const Op& node) {
    Slot& b = s.slots[slot_of(w)];
    s.warps[w].at_barrier = true;
    if (++b.arrived < u.warps) return;
    b.arrived = 0;
    tell(Barrier{s.now, b.number, w, node.origin});
    i64 when = s.now + node.completion;
    i64 first = slot_of(w) * u.warps;
    for (i64 v = first; v < first + u.warps; ++v) {
      Warp& other = s.warps[v];
      const Code& c = code(v);
      other.at_barrier = false;
      complete_at(v, c, c.operations[other.pc], when);
      other.fence = when;
      other.fence_node = node.origin;
      advance(v, c);
    }
  }

  void advance_to(i64 next) {
    s.now = next;
  }

  i64 drained_warps() const { return s.drained_warps; }
  bool complete_now() const { return first_end <= s.now; }

  i64 next_time() {
    if (complete_now()) return kNever;
    const i64* at = due.data();
    if (u.schedulers == kUsual) return std::min(std::min(first_end, std::min(at[0], at[1])), std::min(at[2], at[3]));
    return std::min(first_end, *std::min_element(due.begin(), due.end()));
  }

  // ---- fast-forward

  size_t state_bytes() const {
    return channel_bytes() + sizeof(i64) * (s.heard.words() + s.queued.size() + s.opportunities.size() + s.free_at.size() + 64 + s.loop_counters.size() +
                          s.loop_ordinals.size() + s.all_rings.size()) +
           sizeof(Warp) * s.warps.size();
  }

  // Of what tells most states apart, when warps go on among it: blocks that start apart count down
  // to their start, and no two of those states are equal.
  std::uint64_t state_hash() {
    Hash h;
    hash_channels(h);
    h.add(s.first_scheduler);
    for (i64 w : s.last_served) h.add(w);
    for (i64 c = 0; c < u.copies; ++c) h.add(busy(s, c));
    for (i64 t : s.queued) h.add(clip(t, s.now));
    for (size_t w = 0; w < s.warps.size(); ++w) {
      const Warp& warp = s.warps[w];
      if (!s.slots[slot_of(w)].live) continue;
      h.add(warp.pc * 8 + warp.finished * 4 + warp.at_barrier * 2 + warp.eligible);
      h.add(clip(warp.last, s.now));
      if (!warp.finished && !warp.at_barrier) h.add(clip(warp.ready, s.now));
    }
    return h.value;
  }

  // A time that lies equally far from now, or one that has not moved and lies in the past.
  bool same_time(i64 a, i64 now_a, i64 b, i64 now_b) const {
    return a - now_a == b - now_b || (a == b && a <= now_b);
  }

  bool same_warp(i64 w, const State& before) const {
    const Warp &a = s.warps[w], &b = before.warps[w];
    if (a.pc != b.pc || a.finished != b.finished || a.at_barrier != b.at_barrier ||
        a.eligible != b.eligible)
      return false;
    if (clip(a.last, s.now) != clip(b.last, before.now) ||
        clip(a.fence, s.now) != clip(b.fence, before.now))
      return false;
    if (Heard::kStalls && a.last > s.now && a.last_node != b.last_node) return false;
    if (a.finished)
      return clip(a.head_since, s.now) == clip(b.head_since, before.now);
    if (!same_time(a.head_since, s.now, b.head_since, before.now)) return false;
    if (a.at_barrier && clip(a.resume, s.now) != clip(b.resume, before.now)) return false;
    if (!a.at_barrier) {
      if (!same_time(a.ready, s.now, b.ready, before.now)) return false;
      if (u.oldest_first && a.eligible && held(a, s.now) != held(b, before.now)) return false;
      if (Heard::kStalls && a.ready > a.head_since && a.blamed != b.blamed) return false;
      if (Heard::kStalls && a.eligible && u.width == 1) {
        i64 at = scheduler(w) * u.pipes + head(w).pipe;
        bool still = a.ready == b.ready;
        i64 x = s.opportunities[at] - a.passed_over, y = before.opportunities[at] - b.passed_over;
        if (still ? a.passed_over != b.passed_over : x != y) return false;
      }
    }
    return same_blame(w, before) && s.heard.same(w, a.eligible, before.heard) && same_rings(w, before);
  }

  // Whether a listener to whom it matters will hear the same of the warp's stalls.
  bool same_blame(i64 w, const State& before) const {
    const Warp &a = s.warps[w], &b = before.warps[w];
    return !Heard::kAttributes ||
           ((a.issued_at < 0) == (b.issued_at < 0) &&
            (a.issued_at < 0 || same_time(a.issued_at, s.now, b.issued_at, before.now)) &&
            (a.blamed_use == b.blamed_use || a.ready <= a.head_since));
  }

  bool same_rings(i64 w, const State& before) const {
    const i64 *ordinal_a = ordinals(s, w), *ordinal_b = ordinals(before, w);
    const i64 *ring_a = rings(s, w), *ring_b = rings(before, w);
    for (i64 at = kFirstPort; at < code(w).brief_end; ++at)
      if (clip(ring_a[at], s.now) != clip(ring_b[at], before.now)) return false;
    for (auto& port : code(w).ports) {
      if (port.brief) continue;
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
  i64 repetitions(const State& before) const {
    i64 blocks = s.launched - before.launched;
    i64 times = blocks ? (u.blocks - s.launched) / blocks : kNever;
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
        if (!keeps_phases(before, slot_of(w), p, loop, step)) return 0;
        shifted = loop;
        moved = true;
        times = std::min(times, (p.loops[loop].trips - 1 - now[loop]) / step);
      }
    }
    return moved ? times : 0;
  }

  bool skip(const State& before) {
    if (s.now <= before.now || s.first_scheduler != before.first_scheduler) return false;
    for (size_t w = 0; w < s.warps.size(); ++w)  // first, as in them states of one hash differ
      if (s.slots[w / u.warps].live && !same_warp((i64)w, before)) return false;
    if (!same_unit(before)) return false;
    for (size_t i = 0; i < s.queued.size(); ++i)
      if (clip(s.queued[i], s.now) != clip(before.queued[i], before.now)) return false;
    i64 times = repetitions(before);
    if (times <= 0 || times == kNever) return false;
    shift(before, times);
    return true;
  }

  void shift(const State& before, i64 times) {
    i64 time = times * (s.now - before.now);
    for (i64 i = 0; i < (i64)s.opportunities.size(); ++i)
      s.opportunities[i] += times * (s.opportunities[i] - before.opportunities[i]);
    for (auto& t : s.queued) t += time;
    for (size_t w = 0; w < s.warps.size(); ++w) shift_warp((i64)w, before, times, time);
    shift_unit(before, times, time);
    find_first_end();
    for (i64 sched = 0; sched < u.schedulers; ++sched) {
      Scheduler& at = schedulers[sched];
      at.count = 0;
      for (i64 w = sched; w < (i64)s.warps.size(); w += u.schedulers) {
        const Warp& warp = s.warps[w];
        bool waits = s.slots[slot_of(w)].live && !warp.finished && !warp.at_barrier && !warp.eligible;
        if (waits) wait(warp, w, at);
      }
      due[sched] = next_due(at);
    }
  }

  void shift_warp(i64 w, const State& before, i64 times, i64 time) {
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
    if (a.finished || a.head_since - s.now == b.head_since - before.now) {
      a.head_since += time;
      a.resume += time;
      if (a.issued_at >= 0) a.issued_at += time;
    }
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
    for (i64 at = kFirstPort; at < c.brief_end; ++at) ring[at] += time;
    for (auto& port : c.ports) {
      if (port.brief) continue;
      i64 x = port.level < 0 ? 0 : old_ordinals[port.level], y = port.level < 0 ? 0 : ordinal[port.level];
      for (i64 i = 0; i < port.size && x - i >= 0; ++i)
        ring[port.at + ((y - i) & (port.size - 1))] =
            old_rings[port.at + ((x - i) & (port.size - 1))] + time;
    }
  }
};

}  // namespace perfassert
