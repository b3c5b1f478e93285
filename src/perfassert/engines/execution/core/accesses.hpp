// Loads, stores and atomics of the warps of a run, and the record of what they touched; as
// `accesses.py`: each operation is finished for all of them, in the order of warps and lanes.
#pragma once
#include "atomics.hpp"
#include "spots.hpp"
#include "touches.hpp"

namespace perfassert {

class Accesses {
 public:
  Store store;
  std::vector<Touches> touches;
  Spots spots;
  i64 recorded = 0;

  // Executes an operation; what its addresses are unknown by is returned.
  u32 perform(const Op& op, i64 place, i64 warps_per_block, const Row* rows, std::size_t count) {
    op_ = &op;
    memory_ = &op.memory;
    spots.start(op, place, warps_per_block, rows, count);
    if (spots.unknown && (op.kind == Kind::kStore || op.kind == Kind::kAtomic)) stray();
    record();
    if (op.kind == Kind::kMatrixLoad) forget_targets();
    else if (op.kind == Kind::kLoad) load();
    else change();
    return spots.unknown;
  }

  // Whether the lanes of some rows write is unknown: so is what they may write to.
  void doubt(const Op& op, i64 place, i64 warps_per_block, const std::vector<Row>& rows, u32 mask) {
    memory_ = &op.memory;
    spots.start(op, place, warps_per_block, rows.data(), rows.size());
    spots.unknown = mask;
    for (Spot& spot : spots) spot.known = 0;
    stray();
  }

  // An instruction without a translation wrote to memory: all of it is unknown.
  void forget(const Memory& memory) {
    if (memory.space == kShared && store.shared_bytes)
      store.shared.taint(store.codes.of(kUntranslated), 0, store.shared.size);
    else if (memory.space == kGlobal)
      store.global.taint(store.codes.of(kUntranslated), 0, store.global.size);
  }

 private:
  const Op* op_ = nullptr;
  const Memory* memory_ = nullptr;

  // Somewhere is written to: in the buffer whose pointer the address was made from.
  void stray() {
    std::vector<u64> addresses;
    for (Spot& spot : spots)
      for_lanes(spot.lanes & ~spot.known, [&](int l) { addresses.push_back(spot.address[l]); });
    u8 code = store.codes.of(spots.unknown);
    if (memory_->space == kShared) store.shared.taint(code, 0, store.shared.size);
    else if (memory_->space == kLocal) store.local.taint(code, 0, store.local.size);
    else store.taint(addresses, spots.unknown);
  }

  void record() {
    Touches& to = touches[static_cast<std::size_t>(op_->touched)];
    for (Spot& spot : spots) {
      if (!spot.lanes) continue;
      to.add(spot.row->warp, spot.known, spot.address);
      ++recorded;
      to.guessed += count_lanes(spot.lanes & ~spot.known);
    }
  }

  void forget_targets() {
    for (Spot& spot : spots)
      for (auto& target : op_->targets) write_all(target, *spot.row, 0, kUntranslated);
  }

  // Reading

  void load() {
    if (!op_->wanted) {
      if (store.bounded && memory_->space == kGlobal) spots.buffers(store, false);  // tells what lies outside
      return;
    }
    clear_words();
    spots.planes(store, [&](Plane& plane) { read(plane); });
    for (Spot& spot : spots)
      if (memory_->is_signed && memory_->bytes < 4) extend_sign(spot.words[0]);
    write_words();
  }

  void clear_words() {
    std::size_t words = static_cast<std::size_t>(memory_->words());
    for (Spot& spot : spots) std::memset(spot.words, 0, words * sizeof(spot.words[0]));
  }

  void write_words() {
    for (Spot& spot : spots)
      for (std::size_t k = 0; k < static_cast<std::size_t>(memory_->words()); ++k)
        write(op_->targets[k], *spot.row, spot.words[k], spot.some ? spot.marks : nullptr);
  }

  void extend_sign(u32* words) const {
    int shift = 32 - 8 * memory_->bytes;
    for (int l = 0; l < kWarp; ++l) words[l] = static_cast<u32>(static_cast<i32>(words[l] << shift) >> shift);
  }

  void read(const Plane& plane) {
    int bytes = memory_->bytes;
    for (Spot& spot : spots) {
      if (bytes == 4) for_lanes(spot.inside, [&](int l) { std::memcpy(&spot.words[0][l], plane.content + spot.at[l], 4); });
      else for_lanes(spot.inside, [&](int l) { plane.load(spot.at[l], bytes, &spot.words[0][l], kWarp); });
      if (!plane.some) continue;
      for_lanes(spot.inside, [&](int l) {
        u32 why = plane.unknown(spot.at[l], bytes, store.codes);
        if (why) spot.mark(l, why);
      });
    }
  }

  // Writing

  // Where the data of a warp comes from that is unknown; null: all of it is known.
  const u32* data_marks(const Spot& spot, u32* marks) const {
    if (op_->wanted)
      return gather_marks(op_->sources, 4, op_->sources.size(), spot.row->warp, marks) ? marks : nullptr;
    for (int l = 0; l < kWarp; ++l) marks[l] = kLeftOut;
    return marks;
  }

  u32 data(const Spot& spot, std::size_t word, int l) const {
    return op_->sources[4 + word].at(spot.row->warp)[l];
  }

  void change() {
    if (op_->kind == Kind::kStore) {
      spots.planes(store, [&](Plane& plane) { put_all(plane); });
      return;
    }
    clear_words();
    spots.planes(store, [&](Plane& plane) { change_atomically(plane); });
    if (op_->wanted) write_words();
  }

  // Of lanes that overlap, the last one stays.
  void put_all(Plane& plane) {
    std::vector<u32> masks;
    u32 marks[kWarp];
    for (Spot& spot : spots) {
      put_words(plane, spot);
      if (const u32* held = data_marks(spot, marks)) for_lanes(spot.inside, [&](int l) { note(masks, held[l]); });
    }
    std::sort(masks.begin(), masks.end());
    for (u32 mask : masks) plane.some |= store.codes.of(mask) != 0;
    if (!plane.some) return;
    for (Spot& spot : spots) {
      const u32* held = data_marks(spot, marks);
      for_lanes(spot.inside, [&](int l) {
        plane.mark(held ? store.codes.of(held[l]) : 0, spot.at[l], memory_->bytes);
      });
    }
  }

  static void note(std::vector<u32>& masks, u32 mask) {
    if (masks.empty() || masks.back() != mask) masks.push_back(mask);
  }

  void put_words(Plane& plane, const Spot& spot) const {
    for (int k = 0; k < memory_->words(); ++k) {
      const u32* from = op_->sources[4 + static_cast<std::size_t>(k)].at(spot.row->warp);
      for_lanes(spot.inside, [&](int l) { plane.put(spot.at[l] + 4 * k, memory_->bytes, from[l]); });
    }
  }

  // One unknown operand makes all of an operation's results unknown.
  void change_atomically(Plane& plane) {
    u32 unknown = memory_->combine < 0 ? kUntranslated : 0, marks[kWarp];
    for (Spot& spot : spots) {
      const u32* held = data_marks(spot, marks);
      for_lanes(spot.inside, [&](int l) {
        unknown |= (held ? held[l] : 0) | (plane.some ? plane.unknown(spot.at[l], memory_->bytes, store.codes) : 0);
      });
    }
    for (Spot& spot : spots)
      for_lanes(spot.inside, [&](int l) {
        if (unknown) {
          spot.mark(l, unknown);
          plane.taint(store.codes.of(unknown), spot.at[l], spot.at[l] + memory_->bytes);
        } else if (memory_->words() == 1) {
          update(plane, spot, l);
        } else {
          update_wide(plane, spot, l);
        }
      });
  }

  void update(Plane& plane, Spot& spot, int l) {
    u8* to = plane.content + spot.at[l] / 4 * 4;
    u32 old, next = data(spot, 0, l), swap = op_->sources.size() > 5 ? data(spot, 1, l) : next;
    std::memcpy(&old, to, 4);
    u32 left = memory_->combine == kFloatSum ? float_total(old, next)
                                             : updated(memory_->combine, memory_->combine_signed, old, next, swap);
    std::memcpy(to, &left, 4);
    spot.words[0][l] = old;
  }

  void update_wide(Plane& plane, Spot& spot, int l) {
    u8* to = plane.content + spot.at[l] / 8 * 8;
    u64 old, next = wide(data(spot, 0, l), data(spot, 1, l));
    u64 swap = op_->sources.size() > 6 ? wide(data(spot, 2, l), data(spot, 3, l)) : next;
    std::memcpy(&old, to, 8);
    u64 left = updated(memory_->combine, memory_->combine_signed, old, next, swap);
    std::memcpy(to, &left, 8);
    spot.words[0][l] = static_cast<u32>(old);
    spot.words[1][l] = static_cast<u32>(old >> 32);
  }
};

}  // namespace perfassert
