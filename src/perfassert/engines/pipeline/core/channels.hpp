// Where warps of a block meet in phases: who has arrived, who waits, when a phase is complete. The
// last arrival or copy of a phase tells when that will be, as completions are known at issue.
#pragma once

#include "unit.hpp"

namespace perfassert {

struct Phase {
  i64 arrived = 0, copies = 0, when = 0;  // copies: expected and not issued; when: the last is complete
  bool decided = false;
  std::vector<i64> waiters;  // warps
};

// Phases from `base` on; those before it are complete.
struct Channel {
  i64 base = 0;
  std::vector<Phase> open;

  Phase& at(i64 phase) {
    if (phase < base) throw std::runtime_error("an arrival at a phase that is complete");
    while (base + (i64)open.size() <= phase) open.emplace_back();
    return open[(size_t)(phase - base)];
  }

  // Forget phases that are complete, from the first on.
  void settle(i64 now) {
    size_t over = 0;
    while (over < open.size() && open[over].decided && open[over].when <= now) ++over;
    open.erase(open.begin(), open.begin() + (std::ptrdiff_t)over);
    base += (i64)over;
  }

  // Whether a wait for a phase ends at a known time, and which.
  bool known(i64 phase, i64 now, i64& when) {
    when = now;
    if (phase < base) return true;
    Phase& found = at(phase);
    when = std::max(now, found.when);
    return found.decided;
  }

  bool same(i64 now, const Channel& before, i64 then) const {
    if (open.size() != before.open.size()) return false;
    for (size_t i = 0; i < open.size(); ++i) {
      const Phase &a = open[i], &b = before.open[i];
      if (a.arrived != b.arrived || a.copies != b.copies || a.decided != b.decided || a.waiters != b.waiters ||
          std::max(a.when - now, i64{0}) != std::max(b.when - then, i64{0}))
        return false;
    }
    return true;
  }
};

using Channels = std::vector<Channel>;

// An arrival or copy of a phase, complete at `when`; the phase if it is decided with that.
inline Phase* signalled(Channel& channel, const Signal& signal, i64 phase, i64 needed, i64 when, i64 now) {
  channel.settle(now);
  Phase& found = channel.at(phase);
  found.when = std::max(found.when, when);
  found.copies += signal.arrives ? signal.expects : -1;
  found.arrived += signal.arrives;
  found.decided = found.arrived >= needed && found.copies == 0;
  return found.decided ? &found : nullptr;
}

}  // namespace perfassert
