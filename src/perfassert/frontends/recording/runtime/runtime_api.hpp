// The CUDA runtime's functions, as programs call them; declared here after NVIDIA's documentation.
#pragma once

#include <chrono>

#include "copies.hpp"
#include "registration.hpp"

namespace recording {

inline int& last_error() {
    thread_local int last = success;
    return last;
}

inline int said(int status) {
    if (status != success) last_error() = status;
    return status;
}

struct Event { std::chrono::steady_clock::time_point at; };

struct Property { int attribute; std::size_t at, at_before_13, size; };

// cudaDeviceProp, whose layout changed with CUDA 13; an attribute of each field.
constexpr std::size_t absent = ~std::size_t{0};
constexpr Property properties[] = {
    {8, 296, 296, 8}, {12, 304, 304, 4}, {10, 308, 308, 4}, {11, 312, 312, 8}, {1, 320, 320, 4},
    {2, 324, 324, 4}, {3, 328, 328, 4}, {4, 332, 332, 4}, {5, 336, 336, 4}, {6, 340, 340, 4},
    {7, 344, 344, 4}, {13, absent, 348, 4}, {9, 352, 352, 8}, {75, 360, 360, 4},
    {76, 364, 364, 4}, {14, 368, 368, 8}, {51, 376, 376, 8}, {16, 384, 388, 4},
    {19, 392, 400, 4}, {31, 560, 576, 4}, {40, 584, 600, 4}, {41, 588, 604, 4},
    {36, absent, 608, 4}, {37, 592, 612, 4}, {38, 596, 616, 4}, {39, 604, 624, 4},
    {78, 608, 628, 4}, {79, 612, 632, 4}, {81, 624, 640, 8}, {82, 632, 648, 4},
    {83, 636, 652, 4}, {89, 656, 676, 4}, {95, 668, 688, 4}, {97, 672, 696, 8},
    {106, 688, 712, 4}, {111, 696, 720, 8},
};
constexpr std::size_t size_of_properties = 1008, size_in_12 = 1032, size_in_11 = 728;

inline int describe(unsigned char* into, int device, std::size_t size) {
    if (device != 0) return invalid_device;
    State& s = state();
    std::memset(into, 0, size);
    std::strncpy(reinterpret_cast<char*>(into), s.name.c_str(), 255);
    std::memcpy(into + 288, &s.total, 8);
    for (const auto& [attribute, at, before, bytes] : properties) {
        std::size_t offset = size == size_of_properties ? at : before;
        if (offset == absent || offset + bytes > size) continue;
        auto value = static_cast<std::int64_t>(s.attribute(attribute));
        std::memcpy(into + offset, &value, bytes);
    }
    return success;
}

struct FunctionAttributes {  // cudaFuncAttributes
    std::size_t shared, constants, local;
    int threads, registers, ptx, binary, cache, dynamic_shared, carveout, rest[22];
};

struct PointerAttributes {  // cudaPointerAttributes
    int type, device;
    void *on_device, *on_host;
    long reserved[8];
};

struct LaunchAttribute { int id, pad; unsigned value[16]; };

struct LaunchConfiguration {  // cudaLaunchConfig_t
    Extent grid, block;
    std::size_t shared;
    void* stream;
    const LaunchAttribute* attributes;
    unsigned count;
};

struct PitchedPointer { void* start; std::size_t pitch, width, height; };  // cudaPitchedPtr
struct Position { std::size_t x, y, z; };                                  // cudaPos
struct Copy3D {                                                           // cudaMemcpy3DParms
    Array* from_array;
    Position from_at;
    PitchedPointer from;
    Array* into_array;
    Position into_at;
    PitchedPointer into;
    Position extent;
    int kind;
};

inline Pitched side(const Array* array, const PitchedPointer& plain, const Position& at) {
    if (array == nullptr) {
        Pitched whole{plain.start, plain.pitch, plain.pitch * plain.height};
        return {whole.row(at.y, at.z) + at.x, whole.pitch, whole.slice};
    }
    Pitched whole = array->rows();
    return {whole.row(at.y, at.z) + at.x * array->element, whole.pitch, whole.slice};
}

inline int copy(const Copy3D& p) {
    const Array* array = p.from_array != nullptr ? p.from_array : p.into_array;
    std::size_t width = p.extent.x * (array != nullptr ? array->element : 1);
    return copy(side(p.into_array, p.into, p.into_at), side(p.from_array, p.from, p.from_at),
                width, p.extent.y, p.extent.z);
}

inline int make_array(Array** into, const int* format, std::size_t width, std::size_t height,
                      std::size_t depth) {
    auto at_least = [](std::size_t n) { return n > 0 ? n : 1; };
    std::size_t bits = format[0] + format[1] + format[2] + format[3];
    auto* made = new Array{width, at_least(height), at_least(depth), bits / 8, {}, nullptr};
    std::memcpy(made->format, format, sizeof made->format);
    std::size_t size = made->width * made->height * made->depth * made->element;
    made->memory = state().memory.allocate(size, state().total);
    *into = made;
    return made->memory != nullptr ? success : out_of_memory;
}

inline int launch(const void* kernel, LaunchShape shape, void** arguments) {
    Function* function = function_of(kernel);
    return function == nullptr ? invalid_device_function
                               : state().launch(function, shape, arguments);
}

inline int copy_symbol(const void* symbol, std::size_t offset, void* into, const void* from,
                       std::size_t size) {
    Variable* variable = variable_of(symbol);
    if (variable == nullptr) return invalid_symbol;
    if (offset + size > variable->size) return invalid_value;
    auto* at = static_cast<unsigned char*>(state().place(*variable)) + offset;
    if (into != nullptr) return copy(into, at, size);
    int status = copy(at, from, size);
    if (status == success && variable->constant) {
        Writer event;
        event.put(variable->module->id).put<std::uint64_t>(offset).text(variable->name);
        state().link.send(Message::constant, event.raw(at, size));
    }
    return status;
}

inline int make_host(void** into, std::size_t size) {
    if (::posix_memalign(into, 4096, size > 0 ? size : 1) != 0) return out_of_memory;
    state().memory.adopt(*into, size);
    return success;
}

inline int allocate(void** into, std::size_t size, bool shared = false) {
    if (into == nullptr) return invalid_value;
    *into = size > 0 ? state().memory.allocate(size, state().total, shared) : nullptr;
    return *into != nullptr || size == 0 ? success : out_of_memory;
}

inline int release(void* at) {
    return at == nullptr || state().memory.release(at) ? success : invalid_value;
}

inline Way way(int kind) { return kind < 0 || kind > 4 ? Way::by_address : static_cast<Way>(kind); }

inline std::size_t pitch_of(std::size_t width) { return (width + 511) / 512 * 512; }

}  // namespace recording

extern "C" {
using namespace recording;

// Launches

int cudaLaunchKernel(const void* kernel, Extent grid, Extent block, void** arguments,
                     std::size_t shared, void* stream) {
    return said(launch(kernel, {grid, block, {1, 1, 1}, shared, stream}, arguments));
}
int cudaLaunchKernel_ptsz(const void* k, Extent g, Extent b, void** a, std::size_t s, void* t) {
    return cudaLaunchKernel(k, g, b, a, s, t);
}
int __cudaLaunchKernel(const void* k, Extent g, Extent b, void** a, std::size_t s, void* t) {
    return cudaLaunchKernel(k, g, b, a, s, t);
}
int __cudaLaunchKernel_ptsz(const void* k, Extent g, Extent b, void** a, std::size_t s, void* t) {
    return cudaLaunchKernel(k, g, b, a, s, t);
}
int cudaLaunchCooperativeKernel(const void* k, Extent g, Extent b, void** a, std::size_t s,
                                void* t) {
    return cudaLaunchKernel(k, g, b, a, s, t);
}
int cudaLaunchCooperativeKernel_ptsz(const void* k, Extent g, Extent b, void** a, std::size_t s,
                                     void* t) {
    return cudaLaunchKernel(k, g, b, a, s, t);
}
int cudaLaunchKernelExC(const LaunchConfiguration* with, const void* kernel, void** arguments) {
    LaunchShape shape{with->grid, with->block, {1, 1, 1}, with->shared, with->stream};
    for (unsigned i = 0; i < with->count; ++i) {
        const unsigned* value = with->attributes[i].value;
        if (with->attributes[i].id == 4) shape.cluster = {value[0], value[1], value[2]};
    }
    return said(launch(kernel, shape, arguments));
}
int cudaLaunchKernelExC_ptsz(const LaunchConfiguration* w, const void* k, void** a) {
    return cudaLaunchKernelExC(w, k, a);
}
int cudaLaunchHostFunc(void*, void (*call)(void*), void* with) { return call(with), success; }
int cudaStreamAddCallback(void* stream, void (*call)(void*, int, void*), void* with, unsigned) {
    return call(stream, success, with), success;
}

int __cudaGetKernel(void** kernel, const void* host) {
    *kernel = function_of(host);
    return said(*kernel != nullptr ? success : invalid_device_function);
}
int cudaGetKernel(void** kernel, const void* host) { return __cudaGetKernel(kernel, host); }
int cudaGetFuncBySymbol(void** function, const void* host) {
    return __cudaGetKernel(function, host);
}
int cudaFuncGetName(const char** name, const void* kernel) {
    Function* function = function_of(kernel);
    if (function == nullptr) return said(invalid_device_function);
    *name = function->name.c_str();
    return success;
}

int cudaFuncGetAttributes(FunctionAttributes* into, const void* kernel) {
    Function* function = function_of(kernel);
    if (function == nullptr) return said(invalid_device_function);
    const Facts& facts = state().facts(function);
    std::memset(into, 0, sizeof *into);
    into->shared = facts.shared;
    into->constants = facts.constants;
    into->local = facts.local;
    into->threads = facts.threads;
    into->registers = facts.registers;
    into->ptx = facts.ptx;
    into->binary = facts.binary;
    into->dynamic_shared = state().attribute(97) - facts.shared;
    return said(facts.status);
}
int cudaFuncSetAttribute(const void*, int, int) { return success; }
int cudaFuncSetCacheConfig(const void*, int) { return success; }
int cudaFuncSetSharedMemConfig(const void*, int) { return success; }
int cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* kernel,
                                                           int block, std::size_t shared,
                                                           unsigned) {
    Function* function = function_of(kernel);
    if (function == nullptr) return said(invalid_device_function);
    *blocks = state().occupancy(function, block, shared);
    return success;
}
int cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* kernel, int block,
                                                  std::size_t shared) {
    return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, kernel, block, shared, 0);
}

// Memory

int cudaMalloc(void** into, std::size_t size) { return said(allocate(into, size)); }
int cudaMallocManaged(void** into, std::size_t size, unsigned) {
    return said(allocate(into, size, true));
}
int cudaMallocAsync(void** into, std::size_t size, void*) { return said(allocate(into, size)); }
int cudaMallocAsync_ptsz(void** into, std::size_t size, void*) {
    return said(allocate(into, size));
}
int cudaMallocFromPoolAsync(void** into, std::size_t size, void*, void*) {
    return said(allocate(into, size));
}
int cudaMallocPitch(void** into, std::size_t* pitch, std::size_t width, std::size_t height) {
    *pitch = pitch_of(width);
    return said(allocate(into, *pitch * height));
}
int cudaMalloc3D(PitchedPointer* into, Position extent) {
    *into = {nullptr, pitch_of(extent.x), extent.x, extent.y};
    return said(allocate(&into->start, into->pitch * extent.y * extent.z));
}
int cudaFree(void* at) { return said(release(at)); }
int cudaFreeAsync(void* at, void*) { return said(release(at)); }
int cudaFreeAsync_ptsz(void* at, void*) { return said(release(at)); }
int cudaMallocHost(void** into, std::size_t size) { return said(make_host(into, size)); }
int cudaHostAlloc(void** into, std::size_t size, unsigned) { return said(make_host(into, size)); }
int cudaFreeHost(void* at) {
    if (at == nullptr) return success;
    if (!state().memory.release(at)) return said(invalid_value);
    std::free(at);
    return success;
}
int cudaHostRegister(void* at, std::size_t size, unsigned) {
    state().memory.adopt(at, size);
    return success;
}
int cudaHostUnregister(void* at) { return said(release(at)); }
int cudaHostGetDevicePointer(void** into, void* host, unsigned) { return *into = host, success; }
int cudaHostGetFlags(unsigned* flags, void*) { return *flags = 0, success; }
int cudaMemGetInfo(std::size_t* free, std::size_t* total) {
    *total = state().total;
    *free = *total - state().memory.used();
    return success;
}
int cudaPointerGetAttributes(PointerAttributes* into, const void* at) {
    bool device = on_device(at), known = state().memory.holds(at, 1);
    auto* pointer = const_cast<void*>(at);
    *into = {device ? 2 : known ? 1 : 0, 0, known ? pointer : nullptr, device ? nullptr : pointer,
             {}};
    return success;
}

int cudaMemcpy(void* into, const void* from, std::size_t size, int kind) {
    return said(copy(into, from, size, way(kind)));
}
int cudaMemcpyAsync(void* into, const void* from, std::size_t size, int kind, void*) {
    return said(copy(into, from, size, way(kind)));
}
int cudaMemcpyAsync_ptsz(void* into, const void* from, std::size_t size, int kind, void*) {
    return said(copy(into, from, size, way(kind)));
}
int cudaMemcpy_ptds(void* into, const void* from, std::size_t size, int kind) {
    return said(copy(into, from, size, way(kind)));
}
int cudaMemcpyPeer(void* into, int, const void* from, int, std::size_t size) {
    return said(copy(into, from, size));
}
int cudaMemcpyPeerAsync(void* into, int, const void* from, int, std::size_t size, void*) {
    return said(copy(into, from, size));
}
int cudaMemcpy2D(void* into, std::size_t pitch, const void* from, std::size_t from_pitch,
                 std::size_t width, std::size_t rows, int) {
    return said(copy({into, pitch, 0}, {const_cast<void*>(from), from_pitch, 0}, width, rows));
}
int cudaMemcpy2DAsync(void* into, std::size_t pitch, const void* from, std::size_t from_pitch,
                      std::size_t width, std::size_t rows, int kind, void*) {
    return cudaMemcpy2D(into, pitch, from, from_pitch, width, rows, kind);
}
int cudaMemcpy3D(const Copy3D* p) { return said(copy(*p)); }
int cudaMemcpy3DAsync(const Copy3D* p, void*) { return said(copy(*p)); }
int cudaMemset(void* into, int value, std::size_t size) {
    return said(fill(into, static_cast<unsigned char>(value), size));
}
int cudaMemsetAsync(void* into, int value, std::size_t size, void*) {
    return cudaMemset(into, value, size);
}
int cudaMemsetAsync_ptsz(void* into, int value, std::size_t size, void*) {
    return cudaMemset(into, value, size);
}
int cudaMemset2D(void* into, std::size_t pitch, int value, std::size_t width, std::size_t rows) {
    return said(fill(Pitched{into, pitch, 0}, static_cast<unsigned char>(value), width, rows));
}
int cudaMemset2DAsync(void* into, std::size_t pitch, int value, std::size_t width,
                      std::size_t rows, void*) {
    return cudaMemset2D(into, pitch, value, width, rows);
}
int cudaMemset3D(PitchedPointer into, int value, Position extent) {
    Pitched all{into.start, into.pitch, into.pitch * into.height};
    return said(fill(all, static_cast<unsigned char>(value), extent.x, extent.y, extent.z));
}
int cudaMemPrefetchAsync() { return success; }
int cudaMemPrefetchAsync_v2() { return success; }
int cudaMemAdvise() { return success; }
int cudaMemAdvise_v2() { return success; }

// Variables

int cudaMemcpyToSymbol(const void* symbol, const void* from, std::size_t size, std::size_t offset,
                       int) {
    return said(copy_symbol(symbol, offset, nullptr, from, size));
}
int cudaMemcpyToSymbolAsync(const void* symbol, const void* from, std::size_t size,
                            std::size_t offset, int, void*) {
    return said(copy_symbol(symbol, offset, nullptr, from, size));
}
int cudaMemcpyFromSymbol(void* into, const void* symbol, std::size_t size, std::size_t offset,
                         int) {
    return said(copy_symbol(symbol, offset, into, nullptr, size));
}
int cudaMemcpyFromSymbolAsync(void* into, const void* symbol, std::size_t size,
                              std::size_t offset, int, void*) {
    return said(copy_symbol(symbol, offset, into, nullptr, size));
}
int cudaGetSymbolAddress(void** into, const void* symbol) {
    Variable* variable = variable_of(symbol);
    if (variable == nullptr) return said(invalid_symbol);
    *into = state().place(*variable);
    return success;
}
int cudaGetSymbolSize(std::size_t* into, const void* symbol) {
    Variable* variable = variable_of(symbol);
    if (variable == nullptr) return said(invalid_symbol);
    *into = variable->size;
    return success;
}

// Arrays and textures

int cudaMallocArray(Array** into, const int* format, std::size_t width, std::size_t height,
                    unsigned) {
    return said(make_array(into, format, width, height, 1));
}
int cudaMalloc3DArray(Array** into, const int* format, Position extent, unsigned) {
    return said(make_array(into, format, extent.x, extent.y, extent.z));
}
int cudaFreeArray(Array* array) {
    if (array == nullptr) return success;
    state().memory.release(array->memory);
    delete array;
    return success;
}
int cudaMemcpyToArray(Array* into, std::size_t x, std::size_t y, const void* from,
                      std::size_t size, int) {
    return said(copy(into->rows().row(y, 0) + x, from, size));
}
int cudaMemcpy2DToArray(Array* into, std::size_t x, std::size_t y, const void* from,
                        std::size_t pitch, std::size_t width, std::size_t rows, int) {
    Pitched all = into->rows();
    return said(copy(Pitched{all.row(y, 0) + x, all.pitch, 0},
                     Pitched{const_cast<void*>(from), pitch, 0}, width, rows));
}
int cudaMemcpy2DToArrayAsync(Array* into, std::size_t x, std::size_t y, const void* from,
                             std::size_t pitch, std::size_t width, std::size_t rows, int kind,
                             void*) {
    return cudaMemcpy2DToArray(into, x, y, from, pitch, width, rows, kind);
}
int cudaCreateTextureObject(std::uint64_t* into, const void*, const void*, const void*) {
    static std::uint64_t next = 1;
    *into = next++;
    return success;
}
int cudaDestroyTextureObject(std::uint64_t) { return success; }
int cudaCreateSurfaceObject(std::uint64_t* into, const void* resource) {
    return cudaCreateTextureObject(into, resource, nullptr, nullptr);
}
int cudaDestroySurfaceObject(std::uint64_t) { return success; }
struct ChannelFormat { int bits[4], kind; };
ChannelFormat cudaCreateChannelDesc(int x, int y, int z, int w, int kind) {
    return {{x, y, z, w}, kind};
}

// Streams and events: everything happens at once and in order

int cudaStreamCreate(void** into) { return *into = new char, success; }
int cudaStreamCreateWithFlags(void** into, unsigned) { return cudaStreamCreate(into); }
int cudaStreamCreateWithPriority(void** into, unsigned, int) { return cudaStreamCreate(into); }
int cudaStreamDestroy(void* stream) { return delete static_cast<char*>(stream), success; }
int cudaStreamSynchronize(void*) { return success; }
int cudaStreamSynchronize_ptsz(void*) { return success; }
int cudaStreamWaitEvent(void*, void*, unsigned) { return success; }
int cudaStreamWaitEvent_ptsz(void*, void*, unsigned) { return success; }
int cudaStreamQuery(void*) { return success; }
int cudaStreamQuery_ptsz(void*) { return success; }
int cudaStreamGetFlags(void*, unsigned* flags) { return *flags = 0, success; }
int cudaStreamGetPriority(void*, int* priority) { return *priority = 0, success; }
int cudaStreamIsCapturing(void*, int* status) { return *status = 0, success; }
int cudaStreamIsCapturing_ptsz(void*, int* status) { return *status = 0, success; }
int cudaStreamAttachMemAsync(void*, void*, std::size_t, unsigned) { return success; }
int cudaStreamSetAttribute(void*, int, const void*) { return success; }
int cudaEventCreate(Event** into) { return *into = new Event{}, success; }
int cudaEventCreateWithFlags(Event** into, unsigned) { return cudaEventCreate(into); }
int cudaEventDestroy(Event* event) { return delete event, success; }
int cudaEventRecord(Event* event, void*) {
    event->at = std::chrono::steady_clock::now();
    return success;
}
int cudaEventRecord_ptsz(Event* event, void* stream) { return cudaEventRecord(event, stream); }
int cudaEventRecordWithFlags(Event* event, void* stream, unsigned) {
    return cudaEventRecord(event, stream);
}
int cudaEventSynchronize(Event*) { return success; }
int cudaEventQuery(Event*) { return success; }
int cudaEventElapsedTime(float* ms, Event* from, Event* until) {
    *ms = std::chrono::duration<float, std::milli>(until->at - from->at).count();
    return success;
}
int cudaEventElapsedTime_v2(float* ms, Event* from, Event* until) {
    return cudaEventElapsedTime(ms, from, until);
}

// The device

int cudaGetDeviceCount(int* count) { return *count = 1, success; }
int cudaGetDevice(int* device) { return *device = 0, success; }
int cudaSetDevice(int device) { return said(device == 0 ? success : invalid_device); }
int cudaInitDevice(int device, unsigned, unsigned) { return cudaSetDevice(device); }
int cudaChooseDevice(int* device, const void*) { return *device = 0, success; }
int cudaSetDeviceFlags(unsigned) { return success; }
int cudaGetDeviceFlags(unsigned* flags) { return *flags = 0, success; }
int cudaSetValidDevices(int*, int) { return success; }
int cudaDeviceSynchronize() { return success; }
int cudaDeviceReset() { return success; }
int cudaThreadSynchronize() { return success; }
int cudaThreadExit() { return success; }
int cudaDeviceSetCacheConfig(int) { return success; }
int cudaDeviceSetSharedMemConfig(int) { return success; }
int cudaDeviceSetLimit(int, std::size_t) { return success; }
int cudaDeviceGetLimit(std::size_t* value, int) { return *value = 0, success; }
int cudaDeviceCanAccessPeer(int* can, int, int) { return *can = 0, success; }
int cudaDeviceEnablePeerAccess(int, unsigned) { return said(invalid_device); }
int cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
    return *least = *greatest = 0, success;
}
int cudaDeviceGetPCIBusId(char* into, int size, int) {
    std::strncpy(into, "0000:00:00.0", static_cast<std::size_t>(size));
    return success;
}
int cudaDeviceGetAttribute(int* value, int attribute, int device) {
    if (device != 0) return said(invalid_device);
    *value = state().attribute(attribute);
    return success;
}
int cudaGetDeviceProperties(unsigned char* into, int device) {
    bool new_layout = state().version >= 13000;
    return said(describe(into, device, new_layout ? size_of_properties : size_in_11));
}
int cudaGetDeviceProperties_v2(unsigned char* into, int device) {
    return said(describe(into, device, size_in_12));
}
int cudaDeviceGetDefaultMemPool(void** pool, int) { return *pool = &state(), success; }
int cudaDeviceGetMemPool(void** pool, int) { return *pool = &state(), success; }
int cudaDeviceSetMemPool(int, void*) { return success; }
int cudaMemPoolCreate(void** pool, const void*) { return *pool = &state(), success; }
int cudaMemPoolDestroy(void*) { return success; }
int cudaMemPoolSetAttribute(void*, int, void*) { return success; }
int cudaMemPoolTrimTo(void*, std::size_t) { return success; }
int cudaDriverGetVersion(int* version) { return *version = state().version, success; }
int cudaRuntimeGetVersion(int* version) { return *version = state().version, success; }
int cudaProfilerStart() { return success; }
int cudaProfilerStop() { return success; }

// Errors

int cudaGetLastError() {
    int last = last_error();
    last_error() = success;
    return last;
}
int cudaPeekAtLastError() { return last_error(); }
const char* cudaGetErrorName(int status) {
    switch (status) {
        case success: return "cudaSuccess";
        case invalid_value: return "cudaErrorInvalidValue";
        case out_of_memory: return "cudaErrorMemoryAllocation";
        case invalid_configuration: return "cudaErrorInvalidConfiguration";
        case invalid_symbol: return "cudaErrorInvalidSymbol";
        case invalid_device_function: return "cudaErrorInvalidDeviceFunction";
        case invalid_device: return "cudaErrorInvalidDevice";
        case not_found: return "cudaErrorSymbolNotFound";
        case not_supported: return "cudaErrorNotSupported";
        default: return "an error of the recording runtime";
    }
}
const char* cudaGetErrorString(int status) {
    return status == success ? "no error" : cudaGetErrorName(status);
}

}
