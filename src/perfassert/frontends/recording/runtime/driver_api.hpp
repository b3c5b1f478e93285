// The driver's functions that programs with modules of their own call (cuModuleLoad, cuLaunchKernel).
#pragma once

#include <fstream>
#include <iterator>

#include "runtime_api.hpp"
#include "tensor_map.hpp"

namespace recording {

struct DriverConfiguration {  // CUlaunchConfig
    unsigned grid[3], block[3], shared;
    void* stream;
    const LaunchAttribute* attributes;
    unsigned count;
};

// The runtime's numbers that the driver has others for.
inline int as_result(int status) {
    return status == invalid_device_function || status == invalid_symbol ? not_found : status;
}

inline int load_image(Module** into, const void* image) {
    const auto* wrapper = static_cast<const FatBinary*>(image);
    const void* content = wrapper->magic == 0x466243b1 ? wrapper->data : image;
    std::size_t size = image_size(content);
    auto* kept = new unsigned char[size];  // the caller may free his
    std::memcpy(kept, content, size);
    *into = state().load(kept, size);
    return success;
}

inline int load_file(Module** into, const char* path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) return 301;  // file not found
    std::string content((std::istreambuf_iterator<char>(file)), {});
    return content.size() < 16 ? invalid_image : load_image(into, content.c_str());
}

inline int driver_launch(Function* function, const LaunchShape& shape, void** arguments,
                         void** packed) {
    if (packed == nullptr) return as_result(state().launch(function, shape, arguments));
    const unsigned char* at = nullptr;
    std::size_t size = 0;
    for (; *packed != nullptr; packed += 2) {  // CU_LAUNCH_PARAM_END is 0
        if (packed[0] == reinterpret_cast<void*>(1)) at = static_cast<unsigned char*>(packed[1]);
        if (packed[0] == reinterpret_cast<void*>(2)) size = *static_cast<std::size_t*>(packed[1]);
    }
    return as_result(state().launch(function, shape, Bytes(at, at + size)));
}

inline void* pointer(std::uint64_t address) { return reinterpret_cast<void*>(address); }

}  // namespace recording

extern "C" {

using Address = std::uint64_t;  // CUdeviceptr

int cuInit(unsigned) { return success; }
int cuDriverGetVersion(int* version) { return *version = state().version, success; }
int cuDeviceGetCount(int* count) { return *count = 1, success; }
int cuDeviceGet(int* device, int ordinal) {
    return *device = ordinal, ordinal == 0 ? success : invalid_device;
}
int cuDeviceGetName(char* into, int size, int) {
    std::strncpy(into, state().name.c_str(), static_cast<std::size_t>(size));
    return success;
}
int cuDeviceGetAttribute(int* value, int attribute, int) {
    return *value = state().attribute(attribute), success;
}
int cuDeviceTotalMem_v2(std::size_t* bytes, int) { return *bytes = state().total, success; }
int cuDeviceComputeCapability(int* major, int* minor, int) {
    *major = state().attribute(75);
    *minor = state().attribute(76);
    return success;
}
int cuDeviceGetUuid_v2(void* into, int) { return std::memset(into, 0, 16), success; }
int cuDevicePrimaryCtxRetain(void** context, int) { return *context = &state(), success; }
int cuDevicePrimaryCtxRelease_v2(int) { return success; }
int cuDevicePrimaryCtxGetState(int, unsigned* flags, int* active) {
    *flags = 0;
    *active = 1;
    return success;
}
int cuDevicePrimaryCtxSetFlags_v2(int, unsigned) { return success; }
int cuCtxCreate_v2(void** context, unsigned, int) { return *context = &state(), success; }
int cuCtxCreate_v4(void** context, void*, unsigned, int) { return *context = &state(), success; }
int cuCtxDestroy_v2(void*) { return success; }
int cuCtxSetCurrent(void*) { return success; }
int cuCtxGetCurrent(void** context) { return *context = &state(), success; }
int cuCtxPushCurrent_v2(void*) { return success; }
int cuCtxPopCurrent_v2(void** context) { return *context = &state(), success; }
int cuCtxGetDevice(int* device) { return *device = 0, success; }
int cuCtxSynchronize() { return success; }
int cuCtxSetCacheConfig(int) { return success; }
int cuCtxSetLimit(int, std::size_t) { return success; }

int cuModuleLoad(Module** into, const char* path) { return load_file(into, path); }
int cuModuleLoadData(Module** into, const void* image) { return load_image(into, image); }
int cuModuleLoadDataEx(Module** into, const void* image, unsigned, int*, void**) {
    return load_image(into, image);
}
int cuModuleLoadFatBinary(Module** into, const void* image) { return load_image(into, image); }
int cuModuleUnload(Module*) { return success; }
int cuModuleGetFunction(Function** into, Module* module, const char* name) {
    *into = state().function(module, name);
    return as_result(state().facts(*into).status);
}
int cuLibraryLoadData(Module** into, const void* image, int*, void**, unsigned, int*, void**,
                      unsigned) {
    return load_image(into, image);
}
int cuLibraryLoadFromFile(Module** into, const char* path, int*, void**, unsigned, int*, void**,
                          unsigned) {
    return load_file(into, path);
}
int cuLibraryUnload(Module*) { return success; }
int cuLibraryGetModule(Module** into, Module* library) { return *into = library, success; }
int cuLibraryGetKernel(Function** into, Module* library, const char* name) {
    return cuModuleGetFunction(into, library, name);
}
int cuKernelGetFunction(Function** into, Function* kernel) { return *into = kernel, success; }

int cuLaunchKernel(Function* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                   unsigned by, unsigned bz, unsigned shared, void* stream, void** arguments,
                   void** packed) {
    LaunchShape shape{{gx, gy, gz}, {bx, by, bz}, {1, 1, 1}, shared, stream};
    return driver_launch(function, shape, arguments, packed);
}
int cuLaunchKernelEx(const DriverConfiguration* with, Function* function, void** arguments,
                     void** packed) {
    const auto& [g, b, shared, stream, attributes, count] = *with;
    LaunchShape shape{{g[0], g[1], g[2]}, {b[0], b[1], b[2]}, {1, 1, 1}, shared, stream};
    for (unsigned i = 0; i < count; ++i) {
        const unsigned* value = attributes[i].value;
        if (attributes[i].id == 4) shape.cluster = {value[0], value[1], value[2]};
    }
    return driver_launch(function, shape, arguments, packed);
}
int cuLaunchCooperativeKernel(Function* f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                              unsigned by, unsigned bz, unsigned shared, void* stream,
                              void** arguments) {
    return cuLaunchKernel(f, gx, gy, gz, bx, by, bz, shared, stream, arguments, nullptr);
}
int cuFuncGetAttribute(int* value, int attribute, Function* function) {
    const Facts& f = state().facts(function);
    const int values[] = {f.threads, f.shared, f.constants, f.local, f.registers, f.ptx, f.binary};
    if (attribute < 0 || attribute > 6) return not_supported;
    return *value = values[attribute], success;
}
int cuFuncSetAttribute(Function*, int, int) { return success; }
int cuKernelSetAttribute(int, int, Function*, int) { return success; }
int cuFuncSetCacheConfig(Function*, int) { return success; }
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, Function* function, int block,
                                                std::size_t shared) {
    return *blocks = state().occupancy(function, block, shared), success;
}

int cuMemAlloc_v2(void** into, std::size_t size) { return allocate(into, size); }
int cuMemAllocManaged(void** into, std::size_t size, unsigned) {
    return allocate(into, size, true);
}
int cuMemAllocAsync(void** into, std::size_t size, void*) { return allocate(into, size); }
int cuMemAllocPitch_v2(void** into, std::size_t* pitch, std::size_t width, std::size_t rows,
                       unsigned) {
    *pitch = pitch_of(width);
    return allocate(into, *pitch * rows);
}
int cuMemAllocHost_v2(void** into, std::size_t size) { return make_host(into, size); }
int cuMemHostAlloc(void** into, std::size_t size, unsigned) { return make_host(into, size); }
int cuMemFree_v2(Address at) { return release(pointer(at)); }
int cuMemFreeAsync(Address at, void*) { return release(pointer(at)); }
int cuMemFreeHost(void* at) { return cudaFreeHost(at); }
int cuMemGetInfo_v2(std::size_t* free, std::size_t* total) { return cudaMemGetInfo(free, total); }
int cuMemcpy(Address into, Address from, std::size_t size) {
    return copy(pointer(into), pointer(from), size);
}
int cuMemcpyAsync(Address into, Address from, std::size_t size, void*) {
    return copy(pointer(into), pointer(from), size);
}
int cuMemcpyHtoD_v2(Address into, const void* from, std::size_t size) {
    return copy(pointer(into), from, size, Way::host_to_device);
}
int cuMemcpyHtoDAsync_v2(Address into, const void* from, std::size_t size, void*) {
    return copy(pointer(into), from, size, Way::host_to_device);
}
int cuMemcpyDtoH_v2(void* into, Address from, std::size_t size) {
    return copy(into, pointer(from), size, Way::device_to_host);
}
int cuMemcpyDtoHAsync_v2(void* into, Address from, std::size_t size, void*) {
    return copy(into, pointer(from), size, Way::device_to_host);
}
int cuMemcpyDtoD_v2(Address into, Address from, std::size_t size) {
    return copy(pointer(into), pointer(from), size, Way::device_to_device);
}
int cuMemcpyDtoDAsync_v2(Address into, Address from, std::size_t size, void*) {
    return copy(pointer(into), pointer(from), size, Way::device_to_device);
}
int cuMemsetD8_v2(Address at, unsigned char value, std::size_t count) {
    return fill(pointer(at), value, count);
}
int cuMemsetD16_v2(Address at, std::uint16_t value, std::size_t count) {
    return fill(pointer(at), value, count);
}
int cuMemsetD32_v2(Address at, std::uint32_t value, std::size_t count) {
    return fill(pointer(at), value, count);
}
int cuMemsetD8Async(Address at, unsigned char value, std::size_t count, void*) {
    return fill(pointer(at), value, count);
}
int cuMemsetD32Async(Address at, std::uint32_t value, std::size_t count, void*) {
    return fill(pointer(at), value, count);
}

int cuStreamCreate(void** into, unsigned) { return cudaStreamCreate(into); }
int cuStreamDestroy_v2(void* stream) { return cudaStreamDestroy(stream); }
int cuStreamSynchronize(void*) { return success; }
int cuStreamQuery(void*) { return success; }
int cuStreamWaitEvent(void*, void*, unsigned) { return success; }
int cuEventCreate(Event** into, unsigned) { return cudaEventCreate(into); }
int cuEventDestroy_v2(Event* event) { return cudaEventDestroy(event); }
int cuEventRecord(Event* event, void* stream) { return cudaEventRecord(event, stream); }
int cuEventSynchronize(Event*) { return success; }
int cuEventQuery(Event*) { return success; }
int cuEventElapsedTime(float* ms, Event* from, Event* until) {
    return cudaEventElapsedTime(ms, from, until);
}

int cuGetErrorName(int status, const char** into) {
    return *into = cudaGetErrorName(status), success;
}
int cuGetErrorString(int status, const char** into) {
    return *into = cudaGetErrorString(status), success;
}

// Where callers of cuGetProcAddress say `cuMemAlloc` the library exports `cuMemAlloc_v2`.
int cuGetProcAddress_v2(const char* name, void** into, int, std::uint64_t, int* found);
int cuGetProcAddress(const char* name, void** into, int version, std::uint64_t flags) {
    return cuGetProcAddress_v2(name, into, version, flags, nullptr);
}
int cudaGetDriverEntryPoint(const char* name, void** into, std::uint64_t flags, int* found) {
    return cuGetProcAddress_v2(name, into, 0, flags, found);
}
int cudaGetDriverEntryPointByVersion(const char* name, void** into, unsigned, std::uint64_t flags,
                                     int* found) {
    return cuGetProcAddress_v2(name, into, 0, flags, found);
}

}
