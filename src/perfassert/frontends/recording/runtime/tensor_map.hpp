// Tensor maps. What a driver writes into one is not documented, and only bulk copies read it: here a
// map holds what it was asked for, behind a mark, for the recorder to read (arguments.py).
#pragma once

#include "state.hpp"

namespace recording {

constexpr unsigned most_axes = 5;

struct TensorMap {  // CUtensorMap: 128 bytes, aligned to 64
    char mark[8];
    std::uint64_t address, extents[most_axes], strides[most_axes - 1];
    std::uint16_t box[most_axes];
    std::uint8_t steps[most_axes], type, rank, swizzle;
    std::uint8_t unused[22];
};
static_assert(sizeof(TensorMap) == 128);

}  // namespace recording

extern "C" {

int cuTensorMapEncodeTiled(recording::TensorMap* into, int type, std::uint32_t rank, void* address,
                           const std::uint64_t* extents, const std::uint64_t* strides,
                           const std::uint32_t* box, const std::uint32_t* steps, int, int swizzle,
                           int, int) {
    if (into == nullptr || rank == 0 || rank > recording::most_axes) return recording::invalid_value;
    recording::TensorMap made{};
    std::memcpy(made.mark, "tensor\0\1", sizeof made.mark);
    made.address = reinterpret_cast<std::uint64_t>(address);
    made.type = static_cast<std::uint8_t>(type);
    made.rank = static_cast<std::uint8_t>(rank);
    made.swizzle = static_cast<std::uint8_t>(swizzle);
    for (unsigned axis = 0; axis < rank; ++axis) {
        if (box[axis] == 0 || box[axis] > 256 || steps[axis] == 0 || steps[axis] > 8)
            return recording::invalid_value;
        made.extents[axis] = extents[axis];
        made.box[axis] = static_cast<std::uint16_t>(box[axis]);
        made.steps[axis] = static_cast<std::uint8_t>(steps[axis]);
        if (axis + 1 < rank) made.strides[axis] = strides[axis];
    }
    *into = made;
    return recording::success;
}

int cuTensorMapReplaceAddress(recording::TensorMap* map, void* address) {
    if (map == nullptr) return recording::invalid_value;
    map->address = reinterpret_cast<std::uint64_t>(address);
    return recording::success;
}

}
