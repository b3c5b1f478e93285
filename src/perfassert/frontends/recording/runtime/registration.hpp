// What nvcc's host code calls before main(): fat binaries, kernels, variables.
#pragma once

#include "state.hpp"

namespace recording {

struct FatBinary {  // fatbinary_section.h: __fatBinC_Wrapper_t
    int magic, version;
    const void* data;
    void* more;
};

inline Module* module_of(void** handle) { return reinterpret_cast<Module*>(handle); }

inline Function* function_of(const void* kernel) {
    State& s = state();
    std::lock_guard<std::recursive_mutex> lock(s.mutex);
    auto found = s.kernels.find(kernel);
    return found == s.kernels.end() ? nullptr : found->second;
}

inline Variable* variable_of(const void* symbol) {
    State& s = state();
    std::lock_guard<std::recursive_mutex> lock(s.mutex);
    auto found = s.variables.find(symbol);
    return found == s.variables.end() ? nullptr : &found->second;
}

struct Configuration {
    Extent grid, block;
    std::size_t shared;
    void* stream;
};

inline std::vector<Configuration>& configurations() {
    thread_local std::vector<Configuration> waiting;
    return waiting;
}

}  // namespace recording

extern "C" {

void** __cudaRegisterFatBinary(void* wrapper) {
    const auto* binary = static_cast<recording::FatBinary*>(wrapper);
    return reinterpret_cast<void**>(
        recording::state().load(binary->data, recording::image_size(binary->data)));
}

void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
char __cudaInitModule(void**) { return 1; }

void __cudaRegisterFunction(void** handle, const char* host, char*, const char* name, int, void*,
                            void*, void*, void*, int*) {
    recording::State& s = recording::state();
    auto* function = s.function(recording::module_of(handle), name);
    std::lock_guard<std::recursive_mutex> lock(s.mutex);
    s.kernels[host] = function;
    s.kernels[function] = function;
}

void __cudaRegisterVar(void** handle, char* host, char*, const char* name, int, std::size_t size,
                       int constant, int) {
    recording::State& s = recording::state();
    std::lock_guard<std::recursive_mutex> lock(s.mutex);
    s.variables[host] = {recording::module_of(handle), name, size, constant != 0};
}

void __cudaRegisterManagedVar(void** handle, void** host, char*, const char* name, int,
                              std::size_t size, int constant, int) {
    recording::State& s = recording::state();
    std::lock_guard<std::recursive_mutex> lock(s.mutex);
    auto& made = s.variables[host] = {recording::module_of(handle), name, size, constant != 0};
    *host = s.place(made);
}

void __cudaRegisterHostVar(void**, const char*, char*, std::size_t) {}
void __cudaRegisterTexture(void**, const void*, const void**, const char*, int, int, int) {}
void __cudaRegisterSurface(void**, const void*, const void**, const char*, int, int) {}

unsigned __cudaPushCallConfiguration(recording::Extent grid, recording::Extent block,
                                     std::size_t shared, void* stream) {
    recording::configurations().push_back({grid, block, shared, stream});
    return 0;
}

int __cudaPopCallConfiguration(recording::Extent* grid, recording::Extent* block,
                               std::size_t* shared, void* stream) {
    auto& waiting = recording::configurations();
    if (waiting.empty()) return 52;  // cudaErrorMissingConfiguration
    *grid = waiting.back().grid;
    *block = waiting.back().block;
    *shared = waiting.back().shared;
    *static_cast<void**>(stream) = waiting.back().stream;
    waiting.pop_back();
    return 0;
}

}
