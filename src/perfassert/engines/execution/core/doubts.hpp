// Instructions under a guard that is unknown: what they write, or would have, is unknown.
#pragma once
#include <array>

#include "accesses.hpp"

namespace perfassert {

class Doubts {
 public:
  bool any() const { return !rows_.empty(); }

  // Before the instruction, which may change its own guard.
  void find(const Instruction& instruction, const Row* rows, std::size_t count) {
    rows_.clear();
    marks_.clear();
    if (!instruction.guarded || instruction.ends) return;
    rows_.reserve(count);  // a row points into itself
    for (const Row* row = rows; row < rows + count; ++row) {
      if (!instruction.guard.some_at(row->warp)) continue;
      std::array<u32, kWarp> held;
      for (int l = 0; l < kWarp; ++l)
        held[static_cast<std::size_t>(l)] = instruction.guard.marks_at(row->warp)[l] & row->active_words[l];
      u32 lanes = packed(held.data());
      if (!lanes) continue;
      rows_.emplace_back().start(row->warp, lanes);
      marks_.push_back(held);
    }
  }

  // Marks targets and memory; why, of all lanes together, if memory was asked.
  u32 taint(const Instruction& instruction, Accesses& accesses, i64 place, i64 warps_per_block) const {
    u32 all = 0, asked = 0;
    for (auto& held : marks_) all |= joined(held.data(), kAll);
    for (auto& op : instruction.ops) {
      for (auto& target : op.targets)
        for (std::size_t n = 0; n < rows_.size(); ++n) mark(target, rows_[n].warp, marks_[n].data());
      if (!op.memory.exists) continue;
      asked = all;
      if (op.kind == Kind::kStore || op.kind == Kind::kAtomic)
        accesses.doubt(op, place, warps_per_block, rows_, all);
    }
    return asked;
  }

 private:
  static void mark(const Operand& target, u32 warp, const u32* more) {
    if (!target.words) return;
    u32* held = target.marks_at(warp);
    u32 together = target.uniform ? joined(more, kAll) : 0;
    for (int l = 0; l < kWarp; ++l) held[l] |= more[l] | together;
    target.some_at(warp) = 1;
  }

  std::vector<Row> rows_;
  std::vector<std::array<u32, kWarp>> marks_;
};

}  // namespace perfassert
