// Where a memory operation goes, for every warp of a run: which lanes a plane serves, and at which
// place; what lies outside is reported.
#pragma once
#include "memory.hpp"

namespace perfassert {

// The lanes of one warp: `lanes` take part, of `known` the address is known. `marks`: why what they
// read is unknown, if `some`; `inside`: those that the plane at hand serves, at `at`.
struct Spot {
  const Row* row;
  u32 lanes, known, inside;
  bool some;
  u64 address[kWarp];
  i64 at[kWarp];
  u32 marks[kWarp];
  u32 words[8][kWarp];

  void mark(int l, u32 bits) {
    if (!some) std::memset(marks, 0, sizeof(marks));
    some = true;
    marks[l] |= bits;
  }
  u64 window(int l) const {
    u64 high = address[l] >> 32;
    return high == kSharedWindow || high == kLocalWindow ? high : 0;
  }
};

class Spots {
 public:
  std::vector<OutsideAccess> outside;
  u32 unknown = 0;  // why addresses are unknown, of all lanes together

  Spot* begin() { return spots_.data(); }
  Spot* end() { return spots_.data() + used_; }

  void start(const Op& op, i64 place, i64 warps_per_block, const Row* rows, std::size_t count) {
    memory_ = &op.memory;
    place_ = place;
    warps_per_block_ = warps_per_block;
    if (spots_.size() < count) spots_.resize(count);
    used_ = 0;
    unknown = 0;
    for (std::size_t n = 0; n < count; ++n)
      if (rows[n].mask) address(op, rows[n], spots_[used_++]);
    u64 even = static_cast<u64>(memory_->alignment());
    even_ = even & (even - 1) ? 0 : even - 1;
    uneven_ = even_ || even == 1 ? 0 : even;
  }

  // Calls `f` with each plane that the operation reaches, after `inside` and `at` were set for it.
  template <class F>
  void planes(Store& store, F f) {
    int space = memory_->space;
    bool generic = space == kGeneric;
    if ((space == kGlobal || generic) && buffers(store, generic)) f(store.global);
    if ((space == kShared || generic) && windows(kSharedWindow, shared(store), generic)) f(store.shared);
    if ((space == kLocal || generic) && windows(kLocalWindow, local(store), generic)) f(store.local);
    if (space != kConstant) return;
    if (memory_->bank < 0) return no_bank();
    Plane& bank = store.banks[static_cast<std::size_t>(memory_->bank)];
    if (windows(0, {bank.size, 0, 0, kConstantMemory, kConstantBit}, false)) f(bank);
  }

  bool buffers(const Store& store, bool generic) {
    u32 any = 0;
    for (Spot* spot = begin(); spot < end(); ++spot) {
      u32 lanes = spot->known;
      if (generic) for_lanes(lanes, [&](int l) { lanes &= ~(static_cast<u32>(spot->window(l) != 0) << l); });
      spot->inside = 0;
      if (lanes && !in_one_buffer(store, *spot, lanes)) for_lanes(lanes, [&](int l) { buffer(store, *spot, l); });
      any |= spot->inside;
    }
    report();
    return any != 0;
  }

 private:
  // A memory that each block or thread has its own piece of: how long it is, how far apart those of
  // warps' blocks and of threads are; its name, and what is read beyond its end.
  struct Window {
    i64 size, per_block, per_thread, name;
    u32 bits;
  };
  static Window shared(const Store& s) { return {s.shared_bytes, s.shared_bytes, 0, kSharedMemory, kUninitialised}; }
  static Window local(const Store& s) { return {s.stack_bytes, 0, s.stack_bytes, kLocalMemory, kUninitialised}; }

  void address(const Op& op, const Row& row, Spot& spot) {
    const u32* s[4];
    for (int i = 0; i < 4; ++i) s[i] = op.sources[static_cast<std::size_t>(i)].at(row.warp);
    spot.row = &row;
    spot.lanes = row.mask;
    if (op.kind == Kind::kMatrixLoad && op.detail[0] < kWarp) spot.lanes &= (1u << op.detail[0]) - 1;
    bool far = memory_->space == kGlobal || memory_->space == kGeneric;
    u64 scale = memory_->scale, offset = memory_->offset;
    u32 short_scale = memory_->scale, short_offset = static_cast<u32>(offset);
    u64* to = spot.address;
    if (!far)
      for (int l = 0; l < kWarp; ++l) to[l] = s[0][l] * short_scale + s[2][l] + short_offset;
    else if (scale == 1)
      for (int l = 0; l < kWarp; ++l) to[l] = wide(s[0][l], s[1][l]) + wide(s[2][l], s[3][l]) + offset;
    else
      for (int l = 0; l < kWarp; ++l) to[l] = wide(s[0][l], s[1][l]) * scale + wide(s[2][l], s[3][l]) + offset;
    spot.known = spot.lanes;
    spot.some = gather_marks(op.sources, 0, far ? 4 : 3, row.warp, spot.marks);
    if (!spot.some) return;
    for_lanes(spot.lanes, [&](int l) {
      if (spot.marks[l]) spot.known &= ~(1u << l);
      unknown |= spot.marks[l];
    });
  }

  bool aligned(u64 address) const { return !(address & even_) && !(uneven_ && address % uneven_); }

  // The common case: all lanes are within the buffer of the first one.
  bool in_one_buffer(const Store& store, Spot& spot, u32 lanes) const {
    u64 first = spot.address[first_lane(lanes)];
    i64 index = store.locate(first);
    if (index < 0 || uneven_) return false;
    const Region& region = store.regions[static_cast<std::size_t>(index)];
    i64 last = region.size - memory_->bytes;
    if (last < 0 || region.page_count >= 0) return false;
    u32 bad[kWarp];
    for (int l = 0; l < kWarp; ++l) {
      u64 offset = spot.address[l] - region.base;
      spot.at[l] = region.start + static_cast<i64>(offset);
      bad[l] = (offset > static_cast<u64>(last)) | ((spot.address[l] & even_) != 0) |
               ((spot.address[l] ^ first) >> kSpanBits != 0);
    }
    if (packed(bad) & lanes) return false;
    if (region.start >= 0) spot.inside = lanes;
    else for_lanes(lanes, [&](int l) { spot.mark(l, region.bits); });
    return true;
  }

  void buffer(const Store& store, Spot& spot, int l) {
    u64 address = spot.address[l];
    i64 index = store.locate(address);
    const Region* region = index < 0 ? nullptr : &store.regions[static_cast<std::size_t>(index)];
    i64 offset = static_cast<i64>(address - (region ? region->base : 0));
    bool inside = region && offset >= 0 && offset <= region->size - memory_->bytes;
    if (!inside) leave(index, offset);
    inside &= aligned(address);
    i64 place = inside ? region->place(offset) : -1;
    if (place >= 0) {
      spot.inside |= 1u << l;
      spot.at[l] = place;
    } else {
      spot.mark(l, inside ? region->bits : kOutside);
    }
  }

  // `high`: word of generic addresses that mean this memory.
  bool windows(u64 high, const Window& window, bool generic) {
    u32 any = 0;
    for (Spot* spot = begin(); spot < end(); ++spot) {
      u32 lanes = spot->known;
      if (generic) for_lanes(lanes, [&](int l) { lanes &= ~(static_cast<u32>(spot->window(l) != high) << l); });
      i64 first = spot->row->warp / warps_per_block_ * window.per_block +
                  i64{spot->row->warp} * kWarp * window.per_thread;
      u32 good[kWarp];
      for (int l = 0; l < kWarp; ++l) {
        i64 offset = static_cast<i64>(spot->address[l] & 0xFFFFFFFFu);
        spot->at[l] = first + l * window.per_thread + offset;
        good[l] = (offset + memory_->bytes <= window.size) & ((spot->address[l] & even_) == 0);
      }
      spot->inside = packed(good) & lanes;
      if (uneven_)
        for_lanes(spot->inside, [&](int l) {
          if (!aligned(spot->address[l] & 0xFFFFFFFFu)) spot->inside &= ~(1u << l);
        });
      for_lanes(lanes & ~spot->inside, [&](int l) {
        leave(window.name, static_cast<i64>(spot->address[l] & 0xFFFFFFFFu));
        spot->mark(l, window.bits);
      });
      any |= spot->inside;
    }
    report();
    return any != 0;
  }

  void no_bank() {
    for (Spot* spot = begin(); spot < end(); ++spot)
      for_lanes(spot->known, [&](int l) { spot->mark(l, kConstantBit); });
  }

  void leave(i64 where, i64 offset) { ++left_.emplace(where, OutsideAccess{place_, where, offset, 0}).first->second.lanes; }

  // The names in order: within one operation buffers by number, no buffer first.
  void report() {
    for (auto& left : left_) {
      auto same = [&](const OutsideAccess& o) { return o.place == place_ && o.where == left.first; };
      auto known = std::find_if(outside.begin(), outside.end(), same);
      if (known == outside.end()) outside.push_back(left.second);
      else known->lanes += left.second.lanes;
    }
    left_.clear();
  }

  const Memory* memory_ = nullptr;
  i64 place_ = 0, warps_per_block_ = 1;
  u64 even_ = 0, uneven_ = 0;
  std::vector<Spot> spots_;
  std::size_t used_ = 0;
  std::map<i64, OutsideAccess> left_;
};

}  // namespace perfassert
