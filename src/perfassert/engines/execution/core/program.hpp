// The instructions of a kernel, read from packed integers (`compiled.py`), and its registers.
#pragma once
#include <cstdlib>
#include <memory>

#include "bits.hpp"
#include "collective.hpp"
#include "doubles.hpp"

namespace perfassert {

// Registers of all warps, one warp's after the other; those that no instruction writes, once.
class Registers {
 public:
  void read(Reader& in, std::size_t warps) {
    std::size_t count = static_cast<std::size_t>(in.next()), varying = 0;
    struct Start { const u32* words; i64 rows; u32 unknown; bool written, uniform; };
    std::vector<Start> starts(count);
    for (auto& s : starts) {
      s.words = in.address<const u32>();
      s.rows = in.next();
      s.unknown = static_cast<u32>(in.next());
      s.written = in.next() != 0;
      s.uniform = in.next() != 0;
      varying += s.written || s.rows > 1;
    }
    words_ = zeros<u32>(warps * varying * kWarp), marks_ = zeros<u32>(warps * varying * kWarp);
    some_ = zeros<u8>(warps * varying);
    shared_words_ = zeros<u32>(count * kWarp), shared_marks_ = zeros<u32>(count * kWarp);
    shared_some_ = zeros<u8>(count);
    std::size_t own = 0, common = 0;
    for (auto& s : starts) {
      bool each = s.written || s.rows > 1;
      std::size_t at = each ? own++ : common++, stride = each ? varying : 0;
      Operand r;
      r.words = (each ? words_ : shared_words_).get() + at * kWarp;
      r.marks = (each ? marks_ : shared_marks_).get() + at * kWarp;
      r.some = (each ? some_ : shared_some_).get() + at;
      r.stride = stride * kWarp;
      r.step = stride;
      r.uniform = s.uniform;
      for (u32 w = 0; w < (each ? warps : 1); ++w) {
        if (s.words) std::memcpy(r.at(w), s.words + (s.rows > 1 ? w * kWarp : 0), sizeof(u32) * kWarp);
        if (!s.unknown) continue;
        r.some_at(w) = 1;
        for (int l = 0; l < kWarp; ++l) r.marks_at(w)[l] = s.unknown;
      }
      operands_.push_back(r);
    }
  }
  const Operand& at(i64 number) const { return operands_.at(static_cast<std::size_t>(number)); }

 private:
  struct Free {
    void operator()(void* held) const { std::free(held); }
  };
  template <class T>
  using Array = std::unique_ptr<T[], Free>;
  // Pages that are never written cost nothing: most registers are never unknown.
  template <class T>
  static Array<T> zeros(std::size_t count) {
    void* held = std::calloc(count + 1, sizeof(T));
    if (!held) throw std::bad_alloc();
    return Array<T>(static_cast<T*>(held));
  }

  Array<u32> words_, marks_, shared_words_, shared_marks_;
  Array<u8> some_, shared_some_;
  std::vector<Operand> operands_;
};

inline Body body_of(const Op& op) {
  switch (op.kind) {
    case Kind::kMove: return move;
    case Kind::kAdd: return op.carries ? add_carries : add;
    case Kind::kMultiply: return multiply;
    case Kind::kMultiplyWide: return multiply_wide;
    case Kind::kLogic: return logic;
    case Kind::kShift: return shift;
    case Kind::kSelect: return select;
    case Kind::kCompare: return compare;
    case Kind::kCompareExtended: return compare_extended;
    case Kind::kCompareWide: return compare_wide;
    case Kind::kDecide: return decide;
    case Kind::kMinimum: return minimum;
    case Kind::kPermute: return permute;
    case Kind::kCountBits: return count_bits;
    case Kind::kFindBit: return find_bit;
    case Kind::kReverseBits: return reverse_bits;
    case Kind::kBitField: return bit_field;
    case Kind::kExtend: return extend;
    case Kind::kDot: return dot;
    case Kind::kAbsolute: return absolute;
    case Kind::kFloatAdd: return float_add;
    case Kind::kFloatMultiply: return float_multiply;
    case Kind::kFloatFused: return float_fused;
    case Kind::kFloatCompare: return float_compare;
    case Kind::kFloatMinimum: return float_minimum;
    case Kind::kFloatFunction: return float_function;
    case Kind::kFloatCheck: return float_check;
    case Kind::kDoubleAdd: return double_add;
    case Kind::kDoubleMultiply: return double_multiply;
    case Kind::kDoubleFused: return double_fused;
    case Kind::kDoubleCompare: return double_compare;
    case Kind::kFromInteger: return from_integer;
    case Kind::kToInteger: return to_integer;
    case Kind::kRound: return round_whole;
    case Kind::kDoubleRound: return double_round;
    case Kind::kNarrow: return narrow;
    case Kind::kWiden: return widen;
    case Kind::kHalfToFloat: return half_to_float;
    default: return nullptr;
  }
}

inline void read_memory(Reader& in, Memory& memory) {
  memory.exists = in.next() != 0;
  if (!memory.exists) return;
  memory.space = static_cast<int>(in.next());
  memory.bytes = static_cast<int>(in.next());
  memory.offset = static_cast<u64>(in.next());
  memory.scale = static_cast<u32>(in.next());
  memory.is_signed = in.next() != 0;
  memory.bank = static_cast<int>(in.next());
  memory.combine = static_cast<int>(in.next());
  memory.combine_signed = in.next() != 0;
}

// What is read and written has a register for each word.
inline void check_words(const Op& op) {
  bool reads = op.kind == Kind::kLoad || op.kind == Kind::kAtomic;
  bool writes = op.kind == Kind::kStore || op.kind == Kind::kAtomic;
  if (!op.memory.exists || !(reads || writes)) return;
  std::size_t words = static_cast<std::size_t>(op.memory.words());
  if (op.sources.size() < 4 + (writes ? words : 0) || (reads && op.targets.size() < words))
    throw std::runtime_error("an access with too few registers");
}

inline Op read_op(Reader& in, const Registers& registers) {
  Op op;
  i64 kind = in.next();
  if (kind < 0 || kind >= static_cast<i64>(Kind::kCount)) throw std::runtime_error("unknown operation");
  op.kind = static_cast<Kind>(kind);
  op.part = static_cast<int>(in.next());
  op.wanted = in.next() != 0;
  for (i64 n = in.next(); n > 0; --n) {
    i64 number = in.next();
    if (number > 0 && !op.targets.empty()) op.carries = true;
    op.targets.push_back(number > 0 ? registers.at(number) : Operand{});
  }
  for (i64 n = in.next(); n > 0; --n) {
    op.numbers.push_back(static_cast<int>(in.next()));
    op.sources.push_back(registers.at(op.numbers.back()));
  }
  for (i64 n = in.next(); n > 0; --n) op.detail.push_back(in.next());
  read_memory(in, op.memory);
  check_words(op);
  op.body = body_of(op);
  return op;
}

// Whether no other warp can tell when it is executed.
inline bool is_local(const Op& op) {
  if (op.memory.exists) return op.kind == Kind::kLoad || op.kind == Kind::kMatrixLoad;
  return !is_control(op.kind) && op.kind != Kind::kSyncLeave;
}

inline Instruction read_instruction(Reader& in, const Registers& registers) {
  Instruction instruction;
  i64 guard = in.next();
  instruction.holds = static_cast<u32>(in.next());
  instruction.guarded = guard >= 0;
  if (instruction.guarded) instruction.guard = registers.at(guard);
  for (i64 n = in.next(); n > 0; --n) {
    instruction.ops.push_back(read_op(in, registers));
    const Op& op = instruction.ops.back();
    instruction.ends |= is_control(op.kind);
    instruction.counts |= op.kind == Kind::kBranch || op.kind == Kind::kBranchDiverged;
    instruction.local &= is_local(op);
  }
  return instruction;
}

// Zero where the known predicates decide already.
inline void undecided(const Op& op, u32 warp, const u32* const* s, u32* marks) {
  u32 table = static_cast<u32>(op.detail[0]);
  for (int l = 0; l < kWarp; ++l) {
    u32 open = 0, base = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      u32 weight = 4u >> i;
      bool unknown = op.sources[i].some_at(warp) && op.sources[i].marks_at(warp)[l];
      if (unknown) open |= weight;
      else base |= s[i][l] * weight;
    }
    u32 seen = 0;
    for (u32 row = 0; row < 8; ++row)
      if (!(row & ~open)) seen |= (base | row) > 31 ? 1 : 1u << (table >> (base | row) & 1);
    if (seen != 3) marks[l] = 0;
  }
}

// Unknown operands make the result unknown unless it does not depend on them.
inline void result_marks(const Op& op, u32 warp, const u32* const* s, u32* marks) {
  if (op.kind == Kind::kDecide) return undecided(op, warp, s, marks);
  if (op.kind != Kind::kSelect) return;
  auto mark = [&](std::size_t i, int l) {
    return op.sources[i].some_at(warp) ? op.sources[i].marks_at(warp)[l] : 0;
  };
  for (int l = 0; l < kWarp; ++l) marks[l] = mark(s[2][l] ? 0 : 1, l) | mark(2, l);
}

constexpr std::size_t kMostSources = 6, kMostResults = 4;

inline void compute(const Op& op, const Row& row) {
  const u32* s[kMostSources];
  u32 out[kMostResults][kWarp], marks[kWarp];
  for (std::size_t i = 0; i < op.sources.size(); ++i) s[i] = op.sources[i].at(row.warp);
  op.body(op, s, out);
  bool some = gather_marks(op.sources, 0, op.sources.size(), row.warp, marks);
  if (some) result_marks(op, row.warp, s, marks);
  for (std::size_t k = 0; k < op.targets.size() && k < kMostResults; ++k)
    write(op.targets[k], row, out[k], some ? marks : nullptr);
}

// An operation for which a warp needs no other.
inline void run_local(const Op& op, Row* rows, std::size_t count) {
  for (Row* row = rows; row < rows + count; ++row) {
    if (!row->mask) continue;
    if (op.body) compute(op, *row);
    else if (op.kind == Kind::kShuffle) shuffle(op, *row);
    else if (op.kind == Kind::kUnknown)
      for (auto& target : op.targets) write_all(target, *row, 0, kUntranslated);
    else together(op, *row);
  }
}

}  // namespace perfassert
