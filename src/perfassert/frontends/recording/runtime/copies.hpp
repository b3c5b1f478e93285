// Copies and fills, the same for both interfaces; sizes and pitches in bytes.
#pragma once

#include "state.hpp"

namespace recording {

enum class Way { host_to_host, host_to_device, device_to_host, device_to_device, by_address };

inline bool on_device(const void* at) { return state().memory.made_here(at); }

// A device pointer that runs out of its allocation is refused as the driver refuses it.
inline bool may_touch(const void* at, std::size_t size) {
    return !on_device(at) || state().memory.holds(at, size);
}

inline int copy(void* into, const void* from, std::size_t size, Way way = Way::by_address) {
    if (size == 0) return success;
    if (into == nullptr || from == nullptr) return invalid_value;
    bool to_device = way == Way::host_to_device || way == Way::device_to_device;
    bool from_device = way == Way::device_to_host || way == Way::device_to_device;
    Memory& memory = state().memory;
    if (to_device && !memory.holds(into, size)) return invalid_value;
    if (from_device && !memory.holds(from, size)) return invalid_value;
    if (!may_touch(into, size) || !may_touch(from, size)) return invalid_value;
    std::memmove(into, from, size);
    if (on_device(from)) memory.copied(into, from, size);
    else if (memory.holds(into, size)) memory.written(into, size);
    return success;
}

struct Pitched {
    void* start;
    std::size_t pitch, slice;

    unsigned char* row(std::size_t y, std::size_t z) const {
        return static_cast<unsigned char*>(start) + y * pitch + z * slice;
    }
};

inline int copy(Pitched into, Pitched from, std::size_t width, std::size_t rows,
                std::size_t slices = 1) {
    if (width == into.pitch && width == from.pitch && slices == 1)
        return copy(into.start, from.start, width * rows);
    for (std::size_t z = 0; z < slices; ++z)
        for (std::size_t y = 0; y < rows; ++y)
            if (int status = copy(into.row(y, z), from.row(y, z), width)) return status;
    return success;
}

template <class T> int fill(void* into, T value, std::size_t count) {
    if (count == 0) return success;
    std::size_t size = count * sizeof(T);
    if (into == nullptr || !state().memory.holds(into, size)) return invalid_value;
    for (std::size_t i = 0; i < count; ++i)
        std::memcpy(static_cast<unsigned char*>(into) + i * sizeof(T), &value, sizeof(T));
    state().memory.written(into, size);
    return success;
}

template <class T>
int fill(Pitched into, T value, std::size_t width, std::size_t rows, std::size_t slices = 1) {
    for (std::size_t z = 0; z < slices; ++z)
        for (std::size_t y = 0; y < rows; ++y)
            if (int status = fill(into.row(y, z), value, width)) return status;
    return success;
}

struct Array {  // cudaArray: what textures read, as plain rows
    std::size_t width, height, depth, element;
    int format[5];
    void* memory;

    Pitched rows() const { return {memory, width * element, width * element * height}; }
};

}  // namespace recording
