// Warps issue in program order; each scheduler picks one of its warps at a time.
#pragma once

#include <array>

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
  std::vector<i64> queued;                                   // [copy]: its first place, then when each one was served
  std::vector<i64> loop_counters, loop_ordinals, all_rings;  // per warp, at a fixed stride
};

// `narrow`: at most 64 warps, few pipelines, and one issue at a whole cycle; then masks are single
// words, and what a scheduler has stands in one place.
constexpr i64 kFewPipes = 16;
inline bool narrow(const Unit& u) {
  return u.width == 1 && u.resident * u.warps <= 64 && u.pipes <= kFewPipes;
}

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
      codes.emplace_back(p, u.depth, nodes, uses);
      nodes += (i64)codes.back().operations.size();
      uses += (i64)codes.back().uses.size();
    }
    for (i64 d : u.depth) depth_of_queue = std::max(depth_of_queue, d);
    s.queued.assign(u.copies * (1 + depth_of_queue), 0);
    depth_of.assign(u.copies, 0);
    for (i64 pipe = 0; pipe < u.pipes; ++pipe)
      for (i64 copy : u.copy[pipe]) depth_of[copy] = std::max<i64>(0, u.depth[pipe]);
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
    if (kNarrow) s.used.assign(u.schedulers, 1);
    schedulers.resize(u.schedulers);
    for (i64 sched = 0; sched < u.schedulers; ++sched) {
      Scheduler& at = schedulers[sched];
      make_room(at.line, (n + u.schedulers - 1) / u.schedulers);
      make_room(at.eligible, u.pipes * words);
      make_room(at.free, u.pipes);
      make_room(at.runs_on, u.pipes);
      make_room(at.queue, u.pipes);
      for (i64 pipe = 0; pipe < u.pipes; ++pipe) {
        const i64 copy = u.copy[pipe][sched];
        at.free[pipe] = &s.free_at[copy];
        at.runs_on[pipe] = u.runs_on[copy];
        at.queue[pipe] = &s.queued[copy * (1 + depth_of_queue)];
      }
      at.opportunities = &s.opportunities[sched * u.pipes];
    }
    places.resize(n);
    for (i64 w = 0; w < n; ++w) {
      const Code& c = codes[u.variant[w % u.warps]];
      places[w] = {&s.warps[w], &s.all_rings[w * ring_stride], &c, c.operations.data(), (std::int32_t)w,
                   (std::int32_t)(w % u.schedulers), (std::int32_t)(w / u.warps), 0, 0, ~1ull << (w & 63)};
      places[w].stand_at(w);
      place_at.push_back(&places[w]);
    }
    due.assign(u.schedulers, 0);
    able.assign(words, 0);
  }

 private:
  std::vector<Code> codes;
  i64 words = 0, loop_stride = 1, ring_stride = 1, depth_of_queue = 0;
  i64 first_end = kNever;               // when the first live block is complete
  std::vector<std::uint64_t> able;      // warps that a scheduler can issue now
  std::vector<i64> depth_of;            // [copy]: places of its queue
  std::vector<i64> due;                 // per scheduler: nothing can happen before
  struct Wait { i64 until; std::int32_t warp, pipe; };
  // In place where there are few.
  template <class T, size_t kFew> using Room = std::conditional_t<kNarrow, std::array<T, kFew>, std::vector<T>>;
  template <class T> static void make_room(T& room, i64 count) {
    if constexpr (!kNarrow) room.resize(count);
    else room.fill({});
  }
  // What belongs to a scheduler: pipelines with eligible warps as bits, and those who wait.
  struct Scheduler {
    std::uint64_t active = 0, preferred = 0;  // preferred: who goes first in a unit of one word, as far as able
    i64 count = 0;                            // of those who wait
    i64* opportunities = nullptr;             // [pipe]
    Room<std::uint64_t, kFewPipes> eligible;  // [pipe][word]
    Room<i64*, kFewPipes> free;               // [pipe]: when its pipeline is free,
    Room<i64, kFewPipes> runs_on;             // ticks after which that has stood still,
    Room<i64*, kFewPipes> queue;              // and the queue behind it
    Room<Wait, 64> line;
  };
  std::vector<Scheduler> schedulers;
  // Where a warp of the unit belongs; `word`, `bit`: in masks, where the oldest stand first if that counts.
  struct Place {
    Warp* warp;
    i64* ring;
    const Code* code;
    const Op* operations;
    std::int32_t number, scheduler, slot, word;
    std::uint64_t bit, preferred;  // preferred: who goes first after it
    void stand_at(i64 at) { word = (std::int32_t)(at >> 6); bit = 1ull << (at & 63); }
  };
  std::vector<Place> places;
  static constexpr i64 kUsual = 4;      // schedulers: loops over so many are unrolled
  bool released = false;                // a warp has become ready at once, perhaps another scheduler's
  i64 last_issuer = -1;                 // scheduler
  std::vector<Place*> place_at;         // whose bit it is

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

  void advance(i64 w, const Code& c) {
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
  [[gnu::always_inline]] void look_ahead(i64 w, Warp& warp, const Place& place, i64 since) {
    const Op& op = place.operations[warp.pc];
    const i64* ring = place.ring;
    i64 when = warp.fence;
    if (Heard::kStalls || __builtin_expect(!op.plain, 0)) when = blame(w, warp, place, op);
    else for (i64 at : op.use_at) when = std::max(when, ring[at]);
    warp.head_since = since;
    warp.pipe = op.pipe;
    warp.ready = std::max(when, std::max(since, s.now));
  }
  i64 blame(i64 w, Warp& warp, const Place& place, const Op& op) {
    Latest found{warp.fence, warp.fence_node, -1};
    if (op.plain) {
      const Rest& more = place.code->rest[warp.pc];
      for (int i = 0; i < Op::kPlain; ++i) found.add(place.ring[op.use_at[i]], more.use_origin[i], i);
    } else {
      add_uses(w, *place.code, found);
    }
    warp.blamed = found.who;
    warp.blamed_use = found.by;
    return found.when;
  }
  void prepare(i64 w) {
    const Place& place = places[w];
    Warp& warp = *place.warp;
    look_ahead(w, warp, place, std::max(warp.head_since, warp.resume));
    i64& when = due[place.scheduler];
    Scheduler& at = schedulers[place.scheduler];
    when = std::min(when, slot_from(warp.ready));
    if (__builtin_expect(warp.ready <= s.now, 0)) { released = true; admit(place, warp.pipe, at); return; }
    wait(warp, w, at);
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

  void admit(const Place& place, i64 pipe, Scheduler& at) {
    Warp& warp = *place.warp;
    warp.eligible = true;
    tell(Ready{place.number, place.scheduler});
    if (Heard::kStalls) warp.passed_over = at.opportunities[pipe];
    at.eligible[kNarrow ? pipe : pipe * words + place.word] |= place.bit;
    at.active |= 1ull << pipe;
  }

  // Warps that will be ready stand in line, the first one last: most come in near there.
  void wait(const Warp& warp, i64 w, Scheduler& at) {
    const i64 ready = warp.ready;
    i64 place = at.count++;
    for (; place > 0 && at.line[place - 1].until < ready; --place) at.line[place] = at.line[place - 1];
    at.line[place] = {ready, (std::int32_t)w, (std::int32_t)warp.pipe};
  }
  void wake(Scheduler& at) {
    const i64 now = s.now;
    i64 count = at.count;
    for (; count && at.line[count - 1].until <= now; --count) {
      const Wait& first = at.line[count - 1];
      admit(places[first.warp], first.pipe, at);
    }
    at.count = count;
  }

  // Schedulers take turns in going first. Those that are due are found at once: whether the next
  // one is among them nobody can foresee.
  [[gnu::always_inline]] void issue_all() {
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
    for (std::uint64_t bits = at.active; bits; bits &= bits - 1)
      due = std::min(due, *at.free[__builtin_ctzll(bits)]);
    due = std::max(due, s.now + 1);
    for (i64 next = at.count; next-- > 0 && at.line[next].until < due;) {
      const Wait& first = at.line[next];
      due = Heard::kAttributes ? first.until : std::min(due, std::max(first.until, *at.free[first.pipe]));
    }
    return slot_from(due);
  }

  // The word of the mask in which a warp's bit stands while it is eligible.
  std::uint64_t& word_of(const Place& place) {
    return schedulers[place.scheduler].eligible[place.warp->pipe * word_count() + place.word];
  }
  // Where warps stand in the masks: by index, or from the oldest block to the youngest.
  void order_by_age() {
    if (!u.oldest_first) return;
    i64 at = 0;
    for (i64 slot : s.by_age)
      for (i64 w = slot * u.warps; w < (slot + 1) * u.warps; ++w, ++at) {
        places[w].stand_at(at);
        places[w].preferred = places[w].bit;
        place_at[at] = &places[w];
      }
    for (auto& scheduler : schedulers) std::fill(scheduler.eligible.begin(), scheduler.eligible.end(), 0);
    for (i64 bit = 0; bit < at; ++bit)
      if (place_at[bit]->warp->eligible) word_of(*place_at[bit]) |= place_at[bit]->bit;
    for (i64 sched = 0; sched < u.schedulers; ++sched)
      if (s.last_served[sched] >= 0) schedulers[sched].preferred = places[s.last_served[sched]].preferred;
  }

  // A warp that could have issued a whole cycle ago and found its pipeline occupied.
  bool held(const Warp& warp, i64 now) const { return now - warp.ready >= (u.width ? u.ticks : 1); }

  // The warp to issue next on a scheduler, or none: the last one served until it is held, or else the
  // oldest, or the next one after the last one served. An issue is an opportunity for all whose pipeline is free.
  [[gnu::always_inline]] const Place* choose(i64 sched, Scheduler& at) {
    return kNarrow || words == 1 ? choose_in_word(at) : choose_in_words(sched, at);
  }
  [[gnu::noinline]] const Place* choose_in_words(i64 sched, Scheduler& at) {
    i64 last = s.last_served[sched];
    bool any = false;
    std::fill(able.begin(), able.end(), 0);
    for (std::uint64_t bits = at.active; bits; bits &= bits - 1) {
      i64 pipe = __builtin_ctzll(bits);
      if (*at.free[pipe] > s.now) continue;
      for (i64 word = 0; word < words; ++word) able[word] |= at.eligible[pipe * words + word];
      at.opportunities[pipe] += Heard::kStalls && u.width == 1;
      any = true;
    }
    if (!any) return nullptr;
    if (u.oldest_first) {
      bool goes_on = last >= 0 && able[places[last].word] & places[last].bit && !held(s.warps[last], s.now);
      return goes_on ? &places[last] : place_at[first_from(0)];
    }
    i64 following = first_from(last + 1);
    return place_at[following >= 0 ? following : first_from(0)];
  }
  // The same without loops over words and with hardly a branch: what is not meant is masked.
  [[gnu::always_inline]] const Place* choose_in_word(Scheduler& at) {
    const i64 now = s.now, counted = Heard::kStalls && one_slot();
    std::uint64_t able = 0;
    for (std::uint64_t bits = at.active; bits; bits &= bits - 1) {
      i64 pipe = __builtin_ctzll(bits), free = *at.free[pipe] <= now;
      able |= at.eligible[pipe] & -(std::uint64_t)free;
      if (Heard::kStalls) at.opportunities[pipe] += free & counted;
    }
    if (__builtin_expect(!able, 0)) return nullptr;
    std::uint64_t first = able & at.preferred;
    if (u.oldest_first && first && held(*place_at[__builtin_ctzll(first)]->warp, now)) first = 0;
    return place_at[__builtin_ctzll(first ? first : able)];
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
      const Place* chosen = choose(sched, at);
      if (!chosen) return;
      s.last_served[sched] = chosen->number;
      at.preferred = chosen->preferred;
      last_issuer = sched;
      issue_warp(*chosen, sched, at);
      if (one_slot()) return;
    }
  }

  [[gnu::always_inline]] void issue_warp(const Place& place, i64 sched, Scheduler& at) {
    const i64 w = place.number, now = s.now;
    Warp& warp = *place.warp;
    const Code& c = *place.code;
    const Op& node = place.operations[warp.pc];
    if (Heard::kStalls) tell_stalls(warp, c, node, at);
    warp.eligible = false;
    std::uint64_t* mask = &at.eligible[node.pipe * word_count()];
    std::uint64_t& word = mask[kNarrow ? 0 : place.word];
    word &= ~place.bit;
    bool empty = word_count() > 1 ? none(mask) : word == 0;
    at.active &= ~((std::uint64_t)empty << node.pipe);
    occupy(*at.free[node.pipe], at.runs_on[node.pipe], node.issue);
    i64 done = node.demands ? serve(node, at) : now;
    if (kNarrow) s.used_at[sched] = now;
    else ++s.used[sched];
    ++simulated;
    if (Heard::kIssues) tell_issue(w, sched, warp, c, node);
    else tell(Issued{});
    warp.head_since = now + slot_ticks();
    if (Heard::kStalls) warp.issued_at = warp.head_since;
    warp.resume = now + node.stall;
    done += node.completion;
    if (kNarrow && __builtin_expect(node.usual, 1)) {  // it is known who is due and that it has to wait
      complete_at(place, node, done);
      ++warp.pc;
      look_ahead(w, warp, place, std::max(now + slot_ticks(), warp.resume));
      wait(warp, w, at);
      return;
    }
    if (node.signals && signal(w, c, node, done)) return;
    if (node.fence) { arrive(w, node); return; }
    complete_at(place, node, done);
    advance(w, c);
  }
  void tell_issue(i64 w, i64 sched, const Warp& warp, const Code& c, const Op& node) {
    const Rest& more = c.rest[warp.pc];
    tell(Issued{s.now, block_of(w), w, sched, c.first_node + more.number, more.origin, more.op, node.pipe, node.issue});
  }

  // Pass the servers one after the other; the queue before the first one has so many places.
  // Returns when the last one is done, or the first one where nobody waits for a result.
  i64 serve(const Op& node, const Scheduler& own) {
    const Demand* demand = node.demand;
    i64 at = pass(own, *demand, s.now);
    const i64 first = at, taken = at - demand->ticks;
    for (const Demand* end = demand + node.demands; ++demand < end;) at = pass(own, *demand, at);
    if (node.depth > 0) {
      i64 *queue = own.queue[node.pipe], first_place = queue[0], &free = *own.free[node.pipe];
      queue[1 + first_place] = taken;
      queue[0] = first_place = either(first_place + 1 == node.depth, 0, first_place + 1);
      free = std::max(free, queue[1 + first_place]);
    }
    return node.produces ? at : first;
  }
  i64 pass(const Scheduler& own, const Demand& demand, i64 at) {
    i64& free = *own.free[demand.pipe];
    free = std::max(at, free) + demand.ticks;
    tell(Served{demand.pipe, demand.ticks});
    return free;
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
  [[gnu::always_inline]] void complete_at(const Place& place, const Op& node, i64 when) {
    Warp& warp = *place.warp;
    const i64 last = warp.last;
    place.ring[node.fill_at] = when;
    warp.last = std::max(when, last);
    if (Heard::kStalls) {
      const i64 origin = rest_of(place, node).origin;
      bool later = (when > last) | ((when == last) & (origin > warp.last_node));
      warp.last_node = either(later, origin, warp.last_node);
    }
    if (Heard::kIssues) tell(Completed{when, s.slots[place.slot].number, place.number, rest_of(place, node).origin});
    if (__builtin_expect(node.more_fills, 0)) fill_more(place, node, when);
  }
  const Rest& rest_of(const Place& place, const Op& node) const { return place.code->rest[&node - place.operations]; }
  void fill_more(const Place& place, const Op& node, i64 when) {
    const i64 *counter = counters(place.number), *ordinal = ordinals(place.number);
    const Code& c = *place.code;
    const Rest& more = rest_of(place, node);
    i64* ring = place.ring;
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
    const Node& node = c.program->nodes[rest_of(places[w], op).number];
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
    complete_at(places[w], op, when + op.completion);
    warp.fence = when + op.completion;
    warp.fence_node = rest_of(places[w], op).origin;
    advance(w, c);
  }

  // Of a warp that waits where nothing can happen any more.
  i64 waiting_node() const {
    for (size_t w = 0; w < s.warps.size(); ++w)
      if (s.slots[slot_of(w)].live && s.warps[w].at_barrier) return rest_of(places[w], head((i64)w)).origin;
    return -1;
  }

  void arrive(i64 w, const Op& node) {
    Slot& b = s.slots[slot_of(w)];
    s.warps[w].at_barrier = true;
    if (++b.arrived < u.warps) return;
    b.arrived = 0;
    const i64 origin = rest_of(places[w], node).origin;
    tell(Barrier{s.now, b.number, w, origin});
    i64 when = s.now + node.completion;
    i64 first = slot_of(w) * u.warps;
    for (i64 v = first; v < first + u.warps; ++v) {
      Warp& other = s.warps[v];
      const Code& c = code(v);
      other.at_barrier = false;
      complete_at(places[v], c.operations[other.pc], when);
      other.fence = when;
      other.fence_node = origin;
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
    for (i64 copy = 0; copy < u.copies; ++copy)
      for (i64 i = 0; i < depth_of_queue; ++i) h.add(clip(queued(s, copy, i), s.now));
    for (size_t w = 0; w < s.warps.size(); ++w) {
      const Warp& warp = s.warps[w];
      if (!s.slots[slot_of(w)].live) continue;
      h.add(warp.pc * 8 + warp.finished * 4 + warp.at_barrier * 2 + warp.eligible);
      h.add(clip(warp.last, s.now));
      if (!warp.finished && !warp.at_barrier) h.add(clip(warp.ready, s.now));
    }
    return h.value;
  }

  // When the `i`-th of a pipeline's queue was served, from the first on.
  i64 queued(const State& t, i64 copy, i64 i) const {
    const i64 *queue = &t.queued[copy * (1 + depth_of_queue)], depth = depth_of[copy], at = queue[0] + i;
    return i < depth ? queue[1 + (at < depth ? at : at - depth)] : 0;
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
    for (i64 copy = 0; copy < u.copies; ++copy)
      for (i64 i = 0; i < depth_of_queue; ++i)
        if (clip(queued(s, copy, i), s.now) != clip(queued(before, copy, i), before.now)) return false;
    i64 times = repetitions(before);
    if (times <= 0 || times == kNever) return false;
    shift(before, times);
    return true;
  }

  void shift(const State& before, i64 times) {
    i64 time = times * (s.now - before.now);
    for (i64 i = 0; i < (i64)s.opportunities.size(); ++i)
      s.opportunities[i] += times * (s.opportunities[i] - before.opportunities[i]);
    for (i64 copy = 0; copy < u.copies; ++copy)
      for (i64 i = 1; i <= depth_of_queue; ++i) s.queued[copy * (1 + depth_of_queue) + i] += time;
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
