// Memory as the executed warps see it; as `memory.py`, whose arrays it works on in place.
#pragma once
#include <algorithm>
#include <map>

#include "lanes.hpp"

namespace perfassert {

constexpr int kSpanBits = 40;
constexpr u64 kSharedWindow = 1, kLocalWindow = 2;  // high words of generic addresses

// Provenance masks as bytes; the last code means any source, should there be more masks than codes.
class Codes {
 public:
  Codes() { masks_[kMany - 1] = kAll; }
  void read(Reader& in) {
    for (i64 n = in.next(); n > 0; --n) of(static_cast<u32>(in.next()));
  }
  // Of four bytes together.
  u32 mask4(u32 codes) const {
    u32 all = masks_[codes & 255];
    if (codes != (codes & 255) * 0x01010101u)
      for (int k = 8; k < 32; k += 8) all |= masks_[codes >> k & 255];
    return all;
  }
  u8 of(u32 mask) {
    if (mask != last_) {
      last_ = mask;
      last_code_ = looked_up(mask);
    }
    return last_code_;
  }

 private:
  u8 looked_up(u32 mask) {
    auto found = code_.find(mask);
    if (found != code_.end()) return found->second;
    if (count_ >= kMany - 1) return kMany - 1;
    masks_[count_] = mask;
    return code_[mask] = static_cast<u8>(count_++);
  }

  static constexpr int kMany = 256;
  u32 last_ = 0;
  u8 last_code_ = 0;
  std::map<u32, u8> code_{{0, 0}};
  u32 masks_[kMany] = {};
  int count_ = 1;
};

// Bytes, and the code of each byte that is unknown; `some`: whether any may be.
struct Plane {
  u8 *content = nullptr, *codes = nullptr;
  i64 size = 0;
  bool some = false;

  void read(Reader& in) {
    content = in.address<u8>();
    codes = in.address<u8>();
    size = in.next();
    some = in.next() != 0;
  }

  void taint(u8 code, i64 start, i64 stop) {
    some = true;
    if (stop > start) std::memset(codes + start, code, static_cast<std::size_t>(stop - start));
  }

  void load(i64 at, int bytes, u32* words, int step) const {
    if (bytes == 1) words[0] = content[at];
    else if (bytes == 2) words[0] = content[at] | static_cast<u32>(content[at + 1]) << 8;
    else
      for (int k = 0; k < bytes / 4; ++k) std::memcpy(words + k * step, content + at + 4 * k, 4);
  }

  void put(i64 at, int bytes, u32 word) const {
    if (bytes == 1) content[at] = static_cast<u8>(word);
    else if (bytes == 2) content[at] = static_cast<u8>(word), content[at + 1] = static_cast<u8>(word >> 8);
    else std::memcpy(content + at, &word, 4);
  }

  void mark(u8 code, i64 at, int bytes) const {
    u32 four = code * 0x01010101u;
    if (bytes < 4) std::memset(codes + at, code, static_cast<std::size_t>(bytes));
    else
      for (int k = 0; k < bytes; k += 4) std::memcpy(codes + at + k, &four, 4);
  }

  u32 unknown(i64 at, int bytes, const Codes& known) const {
    if (bytes == 1) return known.mask4(codes[at]);
    if (bytes == 2) return known.mask4(codes[at] | static_cast<u32>(codes[at + 1]) << 8);
    u32 mask = 0, last = 0;
    for (int k = 0; k < bytes; k += 4) {
      u32 four;
      std::memcpy(&four, codes + at + k, 4);
      if (four != last) mask |= known.mask4(four);
      last = four;
    }
    return mask;
  }
};

constexpr i64 kPageBytes = 256;

// Where its content starts in the plane, −1: nowhere; its size, and how much of the plane it takes.
// `pages`: the ascending numbers of the pages that the plane has, one behind the other, if only some
// are known (`page_count` −1: all); the first byte is `lead` behind the start of a page.
struct Region {
  i64 start, size, length;
  u64 base;
  u32 bits;
  const i64* pages;
  i64 page_count, lead;

  i64 place(i64 offset) const {
    if (start < 0 || page_count < 0) return start < 0 ? -1 : start + offset;
    i64 behind = offset + lead, page = behind / kPageBytes;
    const i64* end = pages + page_count;
    const i64* known = std::lower_bound(pages, end, page);
    if (known == end || *known != page) return -1;
    return start + (known - pages) * kPageBytes + behind % kPageBytes;
  }
};

struct OutsideAccess {
  i64 place, where, offset, lanes;  // `where`: a region, or one of the names below
};
constexpr i64 kNoBuffer = -1, kSharedMemory = -2, kLocalMemory = -3, kConstantMemory = -4;

// Everything that loads and stores reach.
struct Store {
  Codes codes;
  Plane global, shared, local;
  std::vector<Region> regions;
  std::vector<Plane> banks;
  i64 shared_bytes = 0, stack_bytes = 0;
  bool bounded = false;

  void read(Reader& in) {
    codes.read(in);
    global.read(in);
    shared.read(in);
    local.read(in);
    shared_bytes = in.next();
    stack_bytes = in.next();
    banks.resize(static_cast<std::size_t>(in.next()));
    for (auto& bank : banks) bank.read(in);
    regions.resize(static_cast<std::size_t>(in.next()));
    for (auto& region : regions) {
      region.start = in.next();
      region.size = in.next();
      region.length = in.next();
      region.base = static_cast<u64>(in.next());
      region.bits = static_cast<u32>(in.next());
      region.pages = in.address<const i64>();
      region.page_count = in.next();
      region.lead = in.next();
    }
    bounded = in.next() != 0;
  }

  i64 locate(u64 address) const {
    u64 index = (address >> kSpanBits) - 1;
    return index < regions.size() ? static_cast<i64>(index) : kNoBuffer;
  }

  // The buffers that these addresses lie in are unknown from here on.
  void taint(const std::vector<u64>& addresses, u32 mask) {
    std::vector<i64> found;
    for (u64 address : addresses) found.push_back(locate(address));
    std::sort(found.begin(), found.end());
    found.erase(std::unique(found.begin(), found.end()), found.end());
    for (i64 index : found) {
      if (index == kNoBuffer) global.taint(codes.of(mask), 0, global.size);
      else if (const Region& r = regions[static_cast<std::size_t>(index)]; r.start >= 0)
        global.taint(codes.of(mask), r.start, r.start + r.length);
    }
  }
};

}  // namespace perfassert
