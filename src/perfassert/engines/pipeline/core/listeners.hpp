// What happens in a unit, and who listens. The engines tell events by their type; which listeners
// there are is a template argument, so that what nobody hears costs nothing.
#pragma once

#include "unit.hpp"

namespace perfassert {

// Warps are numbered over the unit, slot by slot; `node` and `use` over all programs.
struct Launched { i64 now, block, first_warp; };
struct Retired { i64 now, block; };
struct Elapsed { i64 ticks, resident, drained; };  // warps that were, that had nothing left to issue
struct Drained { i64 ticks; };  // in which a warp had nothing left to issue, besides what elapsed
struct Ready { i64 warp, scheduler; };  // may be issued, if its pipeline and its scheduler can
struct Stalled {                        // before the issue that follows
  enum Reason { kStallCount, kDependence, kBarrier, kNotSelected, kPipeline } reason;
  i64 pipe, ticks, producer, use;
};
struct Issued { i64 now, block, warp, scheduler, node, origin, op, pipe, ticks; };
struct Served { i64 pipe, ticks; };
struct Completed { i64 when, block, warp, origin; };  // may be told ahead of time
struct Barrier { i64 now, block, warp, origin; };     // the last warp of the block has come

// How many instructions were issued, which is all that a time needs.
struct Counting {
  static constexpr bool kIssues = false;      // whether it hears more of an issue than that there was one
  static constexpr bool kStalls = false;      // whether it hears why a warp has waited
  static constexpr bool kAttributes = false;  // whether whom a warp waits for is part of the state
  i64 issued = 0;

  explicit Counting(const Unit&) {}

  template <class Event> void on(const Event&) {}
  void on(const Issued&) { ++issued; }
  i64 instructions() const { return issued; }
  bool same(i64, i64, const Counting&) const { return true; }
  size_t words() const { return 1; }
  void repeat(const Counting& before, i64 times) { issued += times * (issued - before.issued); }
  void report(const Unit&, std::vector<i64>&) const {}
};

// Totals, as results.py has them.
struct Accounting {
  static constexpr bool kIssues = true, kStalls = true, kAttributes = false;
  i64 launched = 0, retired = 0, not_selected = 0, drained = 0, resident = 0;
  std::vector<i64> issued, busy, dependence, pipeline;

  explicit Accounting(const Unit& u)
      : issued(u.ops), busy(u.pipes), dependence(u.origins), pipeline(u.pipes) {}

  template <class Event> void on(const Event&) {}
  void on(const Launched&) { ++launched; }
  void on(const Retired&) { ++retired; }
  void on(const Drained& e) { drained += e.ticks; }
  void on(const Elapsed& e) { resident += e.resident * e.ticks; drained += e.drained * e.ticks; }
  void on(const Served& e) { busy[e.pipe] += e.ticks; }
  void on(const Issued& e) { ++issued[e.op]; busy[e.pipe] += e.ticks; }
  void on(const Stalled& e) {
    if (e.reason == Stalled::kNotSelected) not_selected += e.ticks;
    else if (e.reason == Stalled::kPipeline) pipeline[e.pipe] += e.ticks;
    else if (e.reason != Stalled::kStallCount && e.ticks > 0) dependence[e.producer] += e.ticks;
  }

  i64 instructions() const {
    i64 sum = 0;
    for (i64 n : issued) sum += n;
    return sum;
  }
  bool same(i64, i64, const Accounting&) const { return true; }
  size_t words() const { return issued.size() + busy.size() + dependence.size() + pipeline.size(); }
  // Add `times` repetitions of what was heard since `before`.
  void repeat(const Accounting& before, i64 times) {
    for (auto field : {&Accounting::launched, &Accounting::retired, &Accounting::not_selected,
                       &Accounting::drained, &Accounting::resident})
      this->*field += times * (this->*field - before.*field);
    for (auto field : {&Accounting::issued, &Accounting::busy, &Accounting::dependence,
                       &Accounting::pipeline})
      repeat_words(this->*field, before.*field, times);
  }
  static void repeat_words(std::vector<i64>& now, const std::vector<i64>& before, i64 times) {
    for (size_t i = 0; i < now.size(); ++i) now[i] += times * (now[i] - before[i]);
  }
  void report(const Unit&, std::vector<i64>& out) const {
    out.insert(out.end(), {launched, retired, not_selected, drained, resident});
    for (auto* v : {&issued, &busy, &dependence, &pipeline}) out.insert(out.end(), v->begin(), v->end());
  }
};

// What warps' time at a node was spent on, and on whom; of some also the part in which their
// scheduler idled.
struct Profiling {
  static constexpr bool kIssues = true, kStalls = true, kAttributes = true;
  enum WaitTicks { kIssued, kStall, kStallIdle, kNotSelected, kPipe, kPipeIdle, kFence, kFenceIdle, kSpent };
  i64 ticks, warps;
  std::vector<i64> spent, waited;         // by node, by use (two each)
  std::vector<i64> issues;                // per scheduler
  std::vector<i64> issues_then, issues_ready;  // per warp: at its last issue, when it became ready
  i64 told[Stalled::kPipeline + 1] = {}, use = -1;  // of the warp that is about to issue

  explicit Profiling(const Unit& u)
      : ticks(u.ticks), warps(u.warps), issues(u.schedulers), issues_then(u.warps * u.resident),
        issues_ready(u.warps * u.resident) {
    for (auto& p : u.programs) {
      spent.resize(spent.size() + kSpent * p.nodes.size());
      waited.resize(waited.size() + 2 * uses_of(p));
    }
  }
  static size_t uses_of(const Program& p) {
    size_t uses = 0;
    for (auto& n : p.nodes)
      for (auto& edge : n.edges) uses += edge.size();
    return uses;
  }

  template <class Event> void on(const Event&) {}
  void on(const Launched& e) {
    for (i64 w = e.first_warp; w < e.first_warp + warps; ++w) issues_then[w] = issues[w % (i64)issues.size()];
  }
  void on(const Ready& e) { issues_ready[e.warp] = issues[e.scheduler]; }
  void on(const Stalled& e) {
    told[e.reason] = e.ticks;
    if (e.reason == Stalled::kDependence) use = e.use;
  }
  void on(const Issued& e) {
    i64 stall = told[Stalled::kStallCount], passed = told[Stalled::kNotSelected];
    i64 fence = told[Stalled::kBarrier], wait = told[Stalled::kDependence], held = told[Stalled::kPipeline];
    i64 before = stall + fence + wait, ready = issues_ready[e.warp];
    i64 idle = std::max<i64>(0, before - (ready - issues_then[e.warp]) * ticks);
    i64 idle_stall = before ? idle * stall / before : 0;  // shared out by length
    i64 idle_held = std::min(held, passed + held - (issues[e.scheduler] - ready) * ticks);
    i64* at = &spent[e.node * kSpent];
    ++at[kIssued];
    at[kStall] += stall;
    at[kStallIdle] += idle_stall;
    i64* to = wait ? &waited[2 * use] : at + kFence;
    to[0] += fence + wait;
    to[1] += idle - idle_stall;
    at[kNotSelected] += passed;
    at[kPipe] += held;
    at[kPipeIdle] += std::max<i64>(0, idle_held);
    told[Stalled::kBarrier] = told[Stalled::kDependence] = 0;  // one of them is told each time
    issues_then[e.warp] = ++issues[e.scheduler];
  }

  // Whether the time until the warp's next issue will be shared out as it was.
  bool same(i64 w, i64 eligible, const Profiling& before) const {
    i64 sched = w % (i64)issues.size(), now = issues[sched], then = before.issues[sched];
    auto equal = [&](i64 x, i64 y) { return x == y || now - x == then - y; };
    return equal(issues_then[w], before.issues_then[w]) &&
           (!eligible || equal(issues_ready[w], before.issues_ready[w]));
  }
  size_t words() const { return spent.size() + waited.size() + issues.size() + 2 * issues_then.size(); }
  void repeat(const Profiling& before, i64 times) {
    Accounting::repeat_words(spent, before.spent, times);
    Accounting::repeat_words(waited, before.waited, times);
    for (size_t w = 0; w < issues_then.size(); ++w) {
      size_t sched = w % issues.size();
      i64 more = times * (issues[sched] - before.issues[sched]);
      if (issues_then[w] != before.issues_then[w]) issues_then[w] += more;
      if (issues_ready[w] != before.issues_ready[w]) issues_ready[w] += more;
    }
    Accounting::repeat_words(issues, before.issues, times);
  }
  void report(const Unit& u, std::vector<i64>& out) const {
    if (u.heard != kProfile) return;
    auto node = spent.begin(), use = waited.begin();
    for (auto& p : u.programs) {  // of each its nodes, then its uses
      auto last_node = node + kSpent * (i64)p.nodes.size(), last_use = use + 2 * (i64)uses_of(p);
      out.insert(out.end(), node, last_node);
      out.insert(out.end(), use, last_use);
      node = last_node;
      use = last_use;
    }
  }
};

// Events of a window, as (time, kind, block, warp of the block, node of the graph).
struct Tracing {
  static constexpr bool kIssues = true, kStalls = false, kAttributes = false;
  static constexpr size_t kWords = 5;
  enum Kind { kLaunched, kIssued, kCompleted, kBarrier, kRetired };
  i64 from, to, warps;
  size_t most;
  std::vector<i64> events;

  explicit Tracing(const Unit& u)
      : from(u.from), to(u.to), warps(u.warps), most(kWords * (size_t)u.events) {}

  template <class Event> void on(const Event&) {}
  void on(const Launched& e) { keep(e.now, kLaunched, e.block, 0, -1); }
  void on(const Issued& e) { keep(e.now, kIssued, e.block, e.warp, e.origin); }
  void on(const Completed& e) { keep(e.when, kCompleted, e.block, e.warp, e.origin); }
  void on(const Barrier& e) { keep(e.now, kBarrier, e.block, e.warp, e.origin); }
  void on(const Retired& e) { keep(e.now, kRetired, e.block, 0, -1); }
  void keep(i64 time, Kind kind, i64 block, i64 warp, i64 origin) {
    if (time < from || time >= to) return;
    if (events.size() >= most) throw TraceFull{};
    events.insert(events.end(), {time, kind, block, warp % warps, origin});
  }

  bool same(i64, i64, const Tracing&) const { return true; }
  size_t words() const { return events.size(); }
  void repeat(const Tracing&, i64) {}  // who wants a trace simulates without fast-forward
  void report(const Unit&, std::vector<i64>& out) const {
    out.insert(out.end(), events.begin(), events.end());
  }
};

// Several listeners as one.
template <class... All> struct Listeners : All... {
  static constexpr bool kIssues = (All::kIssues || ...), kStalls = (All::kStalls || ...),
                        kAttributes = (All::kAttributes || ...);
  explicit Listeners(const Unit& u) : All(u)... {}
  template <class Event> void on(const Event& e) { (static_cast<All&>(*this).on(e), ...); }
  bool same(i64 warp, i64 eligible, const Listeners& before) const {
    return (static_cast<const All&>(*this).same(warp, eligible, before) && ...);
  }
  size_t words() const { return (static_cast<const All&>(*this).words() + ...); }
  void repeat(const Listeners& before, i64 times) {
    (static_cast<All&>(*this).repeat(static_cast<const All&>(before), times), ...);
  }
  void report(const Unit& u, std::vector<i64>& out) const {
    (static_cast<const All&>(*this).report(u, out), ...);
  }
};

}  // namespace perfassert
