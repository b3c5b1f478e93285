// Runs machine code on all warps that stand at the same place; as `interpreter.py`.
#pragma once
#include <unordered_map>

#include "doubts.hpp"
#include "program.hpp"
#include "warps.hpp"

namespace perfassert {

constexpr std::size_t kStrip = 8;  // warps whose registers stay in the first-level cache

// What the interpreter is given, and what it counts.
struct Setting {
  i64 warps, per_block, most_lanes, most_instructions, most_accesses;
  const u32* threads;
  i64 *executed, *lanes;  // [warps, instructions + 1]: differences from one instruction to the next
  std::unordered_map<u32, i64> entries;
};

class Interpreter {
 public:
  Setting setting;
  Accesses accesses;
  std::vector<u32> guesses;
  std::vector<u8> lost;
  std::vector<i64> taken;           // [branches, warps, 2]
  std::vector<i64> branches;        // instruction → its number among branches, −1
  std::vector<u8> branched;         // by instruction
  std::vector<u32> cut;
  Warps warps;

  Interpreter(Setting given, Store store, Registers held, std::vector<Instruction> code)
      : setting(std::move(given)), guesses(code.size()), lost(code.size()), branches(code.size(), -1),
        branched(code.size()),
        warps(setting.threads, static_cast<std::size_t>(setting.warps),
              static_cast<std::size_t>(setting.per_block), code.size()),
        registers_(std::move(held)), code_(std::move(code)), steps_(static_cast<std::size_t>(setting.warps)) {
    accesses.store = std::move(store);
    prepare();
  }

  // Until every warp has ended or the limits are reached; `poll` is called now and then.
  template <class Poll>
  void run(Poll poll) {
    for (u64 runs = 1; spent_ < setting.most_lanes && accesses.recorded < setting.most_accesses; ++runs) {
      if (runs % 65536 == 0) poll();
      i64 stop = 0, place = warps.choose(numbers_, stop);
      if (place != kNowhere) run_from(place, stop);
      else if (!warps.unlock()) break;
    }
  }

  const std::vector<Instruction>& code() const { return code_; }

 private:
  Registers registers_;
  std::vector<Instruction> code_;
  std::vector<i64> steps_, reach_;  // `reach_`: the first instruction from here on that is not local
  std::vector<i64> work_;           // instructions before each one that do something
  i64 spent_ = 0, place_ = 0;
  std::vector<u32> numbers_;
  std::vector<Row> rows_;
  Doubts doubts_;

  void prepare() {
    i64 count = 0;
    work_.resize(code_.size() + 1);
    for (std::size_t p = 0; p < code_.size(); ++p) work_[p + 1] = work_[p] + !code_[p].ops.empty();
    reach_.resize(code_.size());
    for (std::size_t p = code_.size(); p-- > 0;) {
      i64 here = static_cast<i64>(p);
      reach_[p] = !code_[p].local ? here : p + 1 < code_.size() ? reach_[p + 1] : here + 1;
    }
    for (std::size_t p = 0; p < code_.size(); ++p)
      if (code_[p].counts) branches[p] = count++;
    taken.resize(static_cast<std::size_t>(count * setting.warps * 2));
    for (std::size_t p = 0; p < code_.size(); ++p)
      for (auto& op : code_[p].ops)
        if (op.memory.exists && op.kind != Kind::kUnknown) {
          op.touched = static_cast<int>(accesses.touches.size());
          Touches own;
          own.place = static_cast<i64>(p), own.part = op.part;
          accesses.touches.push_back(own);
        }
  }

  // From `place` on, up to a jump or a wait, or to where others stand.
  void run_from(i64 place, i64 stop) {
    i64 end = std::min(stop, static_cast<i64>(code_.size())), start = place, total = 0;
    if (rows_.size() < numbers_.size()) rows_.resize(numbers_.size());
    for (std::size_t n = 0; n < numbers_.size(); ++n) {
      rows_[n].start(numbers_[n], warps.active[numbers_[n]]);
      total += count_lanes(rows_[n].active);
    }
    bool ended = false;
    while (place < end && !ended) {
      i64 local = std::min(reach_[static_cast<std::size_t>(place)], end);
      if (local > place) run_strips(place, local);
      else ended = step(local++);
      place = local;
    }
    count(start, place);
    spent_ += work(start, place) * total;
    if (!ended) {
      for (u32 warp : numbers_) warps.go(warp, place);
      if (place >= static_cast<i64>(code_.size())) warps.stop(numbers_);
    }
    stop_long_ones();
  }

  void count(i64 start, i64 place) {
    i64 width = static_cast<i64>(code_.size()) + 1;
    for (std::size_t n = 0; n < numbers_.size(); ++n) {
      i64 lanes = count_lanes(rows_[n].active), at = numbers_[n] * width;
      ++setting.executed[at + start], --setting.executed[at + place];
      setting.lanes[at + start] += lanes, setting.lanes[at + place] -= lanes;
      steps_[numbers_[n]] += work(start, place);
    }
  }

  i64 work(i64 start, i64 place) const {
    return work_[static_cast<std::size_t>(place)] - work_[static_cast<std::size_t>(start)];
  }

  void stop_long_ones() {
    std::vector<u32> over;
    for (u32 warp : numbers_)
      if (steps_[warp] > setting.most_instructions) over.push_back(warp);
    if (over.empty()) return;
    cut.insert(cut.end(), over.begin(), over.end());
    warps.stop(over);
  }

  void run_strips(i64 place, i64 end) {
    for (std::size_t first = 0; first < numbers_.size(); first += kStrip) {
      std::size_t some = std::min(kStrip, numbers_.size() - first);
      for (i64 p = place; p < end; ++p) {
        const Instruction& instruction = code_[static_cast<std::size_t>(p)];
        if (instruction.ops.empty()) continue;
        place_ = p;
        guard(instruction, first, some);
        doubts_.find(instruction, rows_.data() + first, some);
        for (auto& op : instruction.ops) {
          if (op.memory.exists) access(op, first, some);
          else run_local(op, rows_.data() + first, some);
        }
        if (doubts_.any()) guesses[at()] |= doubts_.taint(instruction, accesses, place_, setting.per_block);
      }
    }
  }

  void guard(const Instruction& instruction, std::size_t first, std::size_t some) {
    for (Row* row = rows_.data() + first; row < rows_.data() + first + some; ++row) {
      if (instruction.guarded) row->guard(instruction.guard.at(row->warp), instruction.holds);
      else row->open();
    }
  }

  // An instruction of all warps of the run; whether it ends it.
  bool step(i64 place) {
    const Instruction& instruction = code_[static_cast<std::size_t>(place)];
    place_ = place;
    guard(instruction, 0, numbers_.size());
    if (instruction.guarded && instruction.ends) guess(instruction.guard, &Row::active);
    doubts_.find(instruction, rows_.data(), numbers_.size());
    for (auto& op : instruction.ops) {
      if (is_control(op.kind)) control(op);
      else if (any_lane()) execute(op);
    }
    if (doubts_.any()) guesses[at()] |= doubts_.taint(instruction, accesses, place_, setting.per_block);
    return instruction.ends;
  }

  bool any_lane() const {
    for (std::size_t n = 0; n < numbers_.size(); ++n)
      if (rows_[n].mask) return true;
    return false;
  }

  void execute(const Op& op) {
    if (op.kind == Kind::kUnknown) {
      run_local(op, rows_.data(), numbers_.size());
      if (op.memory.exists) accesses.forget(op.memory);
    } else if (op.memory.exists) {
      access(op, 0, numbers_.size());
    } else if (op.kind == Kind::kSyncLeave) {
      for (std::size_t n = 0; n < numbers_.size(); ++n)
        if (rows_[n].mask) leave_barrier(op.sources[0], rows_[n]);
    } else {
      run_local(op, rows_.data(), numbers_.size());
    }
  }

  void access(const Op& op, std::size_t first, std::size_t some) {
    guesses[at()] |= accesses.perform(op, place_, setting.per_block, rows_.data() + first, some);
  }

  std::size_t at() const { return static_cast<std::size_t>(place_); }

  // An unknown value decides something at this place.
  void guess(const Operand& source, u32 Row::*lanes) {
    for (std::size_t n = 0; n < numbers_.size(); ++n) {
      const Row& row = rows_[n];
      if (source.some_at(row.warp)) guesses[at()] |= joined(source.marks_at(row.warp), row.*lanes);
    }
  }

  void leave_barrier(const Operand& sync, const Row& row) {
    u32* held = sync.at(row.warp);
    u32 mask = held[first_lane(row.mask)];
    for (int l = 0; l < kWarp; ++l)
      if (held[l] == mask) held[l] = mask & ~row.mask;
    if (!warps.blocked[row.warp].empty()) warps.release(row.warp);
  }

  // Flow of control

  void control(const Op& op) {
    switch (op.kind) {
      case Kind::kBranch: case Kind::kBranchDiverged: return branch(op);
      case Kind::kBranchIndirect: return branch_indirect(op);
      case Kind::kExit: case Kind::kLost: return exit(op);
      case Kind::kYield:
        for (u32 warp : numbers_) warps.go(warp, place_ + 1), warps.rotate(warp);
        return;
      default: return wait(op);
    }
  }

  // Lanes whose guard and first source hold.
  u32 chosen(const Op& op, const Row& row) const {
    return op.sources.empty() ? row.mask : row.mask & packed(op.sources[0].at(row.warp));
  }

  void branch(const Op& op) {
    if (!op.sources.empty()) guess(op.sources[0], &Row::active);
    branched[at()] = 1;
    i64* counts = taken.data() + branches[at()] * setting.warps * 2;
    i64 target = std::min(op.detail[0], static_cast<i64>(code_.size()));
    for (std::size_t n = 0; n < numbers_.size(); ++n) {
      const Row& row = rows_[n];
      u32 jump = chosen(op, row);
      if (op.kind == Kind::kBranchDiverged && (row.active == warps.alive[row.warp]) != (op.detail[1] != 0)) jump = 0;
      counts[2 * row.warp] += jump != 0;
      counts[2 * row.warp + 1] += (row.active & ~jump) != 0;
      warps.branch(row.warp, place_, target, jump);
    }
  }

  void branch_indirect(const Op& op) {
    guess(op.sources[0], &Row::mask);
    for (std::size_t n = 0; n < numbers_.size(); ++n) {
      const Row& row = rows_[n];
      i64 places[kWarp];
      u32 gone = 0;
      for_lanes(row.active, [&](int l) {
        places[l] = destination(op, row, l);
        if (places[l] < 0) gone |= 1u << l;
      });
      if (gone) {
        lost[at()] = 1;
        warps.leave({row.warp}, place_, {gone});
      }
      if (row.active & ~gone) warps.scatter(row.warp, places);
    }
  }

  i64 destination(const Op& op, const Row& row, int l) const {
    if (!(row.mask >> l & 1)) return place_ + 1;
    const Operand& source = op.sources[0];
    if (source.some_at(row.warp) && source.marks_at(row.warp)[l]) return -1;
    auto found = setting.entries.find(source.at(row.warp)[l] + static_cast<u32>(op.detail[0]));
    return found == setting.entries.end() ? -1 : found->second;
  }

  void exit(const Op& op) {
    if (!op.sources.empty()) guess(op.sources[0], &Row::active);
    std::vector<u32> lanes;
    for (std::size_t n = 0; n < numbers_.size(); ++n) {
      lanes.push_back(chosen(op, rows_[n]));
      if (op.kind == Kind::kLost && lanes.back()) lost[at()] = 1;
    }
    warps.leave(numbers_, place_, lanes);
  }

  // Lanes whose guard does not hold go on; the others wait.
  void wait(const Op& op) {
    bool plain = op.kind == Kind::kBarrier && op.numbers[1] == 0 && !op.detail[0], whole = plain;
    for (std::size_t n = 0; n < numbers_.size() && whole; ++n) whole = rows_[n].mask == rows_[n].active;
    if (whole && warps.pass_barrier(numbers_, place_ + 1)) return;
    for (std::size_t n = 0; n < numbers_.size(); ++n) {
      const Row& row = rows_[n];
      if (row.mask) wait(op, row);
      else warps.go(row.warp, place_ + 1);
    }
  }

  void wait(const Op& op, const Row& row) {
    bool sync = op.kind == Kind::kSyncWait, within = sync || op.kind == Kind::kWarpWait;
    u32 rest = row.active & ~row.mask;
    u32 mask = within ? op.sources[0].at(row.warp)[first_lane(row.mask)] : 0;
    if (within && !rest && !(mask & warps.alive[row.warp] & ~row.mask)) return warps.go(row.warp, place_ + 1);
    bool waits = op.kind != Kind::kBarrier || !op.detail[0];
    if (rest && waits) warps.pending[row.warp].push_back({place_ + 1, rest});
    if (within) warps.wait(row.warp, {place_ + 1, row.mask, sync ? &op.sources[0] : nullptr, mask});
    else arrive(op, row, waits);
  }

  void arrive(const Op& op, const Row& row, bool waits) {
    guess(op.sources[0], &Row::mask);
    guess(op.sources[1], &Row::mask);
    int lane = first_lane(row.mask);
    u32 barrier = op.sources[0].at(row.warp)[lane], threads = op.sources[1].at(row.warp)[lane];
    if (op.kind == Kind::kBarrierReduce) contribute(op, row, barrier);
    warps.arrive(row.warp, barrier, threads, {place_ + 1, row.mask}, waits);
  }

  // Every arrival rewrites the result of all that have arrived: the last one's is right.
  void contribute(const Op& op, const Row& row, u32 barrier) {
    const Operand& condition = op.sources[2];
    Gathering& gathering = warps.gathering(row.warp, barrier);
    u32 unknown = condition.some_at(row.warp) ? joined(condition.marks_at(row.warp), row.mask) : 0;
    u32 holds = packed(condition.at(row.warp)) & row.mask;
    gathering.parts.push_back({count_lanes(holds), count_lanes(row.mask), unknown});
    Part all{0, 0, 0};
    for (auto& part : gathering.parts) all = {all.holds + part.holds, all.asked + part.asked, all.unknown | part.unknown};
    bool truth = op.detail[0] == kAnd ? all.holds == all.asked : all.holds > 0;
    auto waiting = gathering.waiting;
    waiting.push_back({row.warp, {0, row.mask}});
    for (auto& w : waiting) {
      Row there;
      there.start(w.warp, w.fragment.lanes);
      write_all(op.targets[0], there, static_cast<u32>(all.holds), all.unknown);
      write_all(op.targets[1], there, truth, all.unknown);
    }
  }
};

}  // namespace perfassert
