// Machine code, decoded once: what `kernel/machine.py` describes, with registers as addresses.
#pragma once
#include <cstddef>
#include <vector>

#include "../../module.hpp"

namespace perfassert {

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using i32 = std::int32_t;

constexpr int kWarp = 32;
constexpr u32 kAll = 0xFFFFFFFFu;

// In the order of `Kind`, `Relation` … of kernel/machine.py, which sends their numbers.
enum class Kind : u8 {
  kMove, kAdd, kMultiply, kMultiplyWide, kLogic, kShift, kSelect, kCompare, kCompareExtended, kCompareWide,
  kDecide, kMinimum, kPermute, kCountBits, kFindBit, kReverseBits, kBitField, kExtend, kDot, kAbsolute,
  kFloatAdd, kFloatMultiply, kFloatFused, kFloatCompare, kFloatMinimum, kFloatFunction, kFloatCheck,
  kDoubleAdd, kDoubleMultiply, kDoubleFused, kDoubleCompare, kFromInteger, kToInteger, kRound, kDoubleRound, kNarrow,
  kWiden, kHalfToFloat, kVote, kShuffle, kMatch, kReduce, kFirst, kLoad, kStore, kAtomic, kMatrixLoad,
  kBranch, kBranchDiverged, kBranchIndirect, kExit, kSyncSet, kSyncWait, kSyncLeave, kWarpWait, kBarrier,
  kBarrierReduce, kYield, kUnknown, kLost, kCount
};
enum Relation { kLT, kEQ, kLE, kGT, kNE, kGE, kNever, kAlways, kOrdered, kUnordered };
enum Rounding { kNearest, kDown, kUp, kZero };
enum Function { kCos, kSin, kEx2, kLg2, kRcp, kRsq, kSqrt, kTanh, kRcpHigh, kRsqHigh };
enum Voting { kVoteAll, kVoteAny, kVoteEqual };
enum Shuffling { kIndex, kShuffleUp, kShuffleDown, kButterfly };
enum Combining { kSum, kMin, kMax, kIncrement, kDecrement, kAnd, kOr, kXor, kExchange, kSwap, kFloatSum };
enum Space { kGlobal, kShared, kLocal, kGeneric, kConstant };

// A register: words of 32 lanes and where unknown ones come from, for every warp; a stride of 0
// where all warps share them. `some`: whether any lane may be unknown. No words: discarded.
struct Operand {
  u32* words = nullptr;
  u32* marks = nullptr;
  u8* some = nullptr;
  std::size_t stride = 0, step = 0;
  bool uniform = false;

  u32* at(u32 warp) const { return words + warp * stride; }
  u32* marks_at(u32 warp) const { return marks + warp * stride; }
  u8& some_at(u32 warp) const { return some[warp * step]; }
};

struct Memory {
  bool exists = false;
  int space = 0, bytes = 0, bank = -1, combine = -1;
  bool is_signed = false, combine_signed = false;
  u64 offset = 0;
  u32 scale = 1;
  int words() const { return bytes < 4 ? 1 : bytes / 4; }
  int alignment() const { return bytes < 16 ? bytes : 16; }
};

struct Op;
using Body = void (*)(const Op&, const u32* const* sources, u32 (*out)[kWarp]);

// `body` computes operations that are functions of their sources, lane by lane.
struct Op {
  Kind kind{};
  int part = 0;
  bool wanted = true, carries = false;
  std::vector<Operand> targets, sources;
  std::vector<int> numbers;  // of the sources' registers; 0 always holds 0
  std::vector<i64> detail;
  Memory memory;
  Body body = nullptr;
  int touched = -1;  // which record of touches is its own
};

// `local`: neither writes memory nor waits, so that warps may execute it in any order; `ends`: a run
// of instructions ends here.
struct Instruction {
  Operand guard;
  bool guarded = false, local = true, ends = false, counts = false;
  u32 holds = 1;
  std::vector<Op> ops;
};

inline bool is_control(Kind kind) {
  switch (kind) {
    case Kind::kBranch: case Kind::kBranchDiverged: case Kind::kBranchIndirect: case Kind::kExit:
    case Kind::kSyncWait: case Kind::kWarpWait: case Kind::kBarrier: case Kind::kBarrierReduce:
    case Kind::kYield: case Kind::kLost:
      return true;
    default:
      return false;
  }
}

}  // namespace perfassert
