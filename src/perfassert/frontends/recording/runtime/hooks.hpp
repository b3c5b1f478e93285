// Programs that hold the runtime in themselves (nvcc's default) are led here when they start: the
// first bytes of each function of the runtime that a loaded file defines become a jump to ours.
#pragma once

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/stat.h>

#include "driver_api.hpp"

namespace recording {

// Ours by that name, or null.
inline void* own(const char* name) {
    static void* self = [] {
        Dl_info info{};
        ::dladdr(reinterpret_cast<void*>(&own), &info);
        return ::dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    }();
    static Dl_info mine = [] {
        Dl_info info{};
        ::dladdr(reinterpret_cast<void*>(&own), &info);
        return info;
    }();
    void* found = self != nullptr ? ::dlsym(self, name) : nullptr;
    Dl_info info{};
    bool ours = found != nullptr && ::dladdr(found, &info) != 0 && info.dli_fbase == mine.dli_fbase;
    return ours ? found : nullptr;
}

inline bool jump(unsigned char* from, void* to, std::size_t room) {
#if defined(__x86_64__)
    unsigned char code[14] = {0xFF, 0x25, 0, 0, 0, 0};  // jmp [rip]
    std::memcpy(code + 6, &to, 8);
#elif defined(__aarch64__)
    unsigned char code[16] = {0x50, 0x00, 0x00, 0x58, 0x00, 0x02, 0x1F, 0xD6};  // ldr x16; br x16
    std::memcpy(code + 8, &to, 8);
#else
    return false;
#endif
    if (room < sizeof code) return false;
    auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
    auto begin = reinterpret_cast<std::uintptr_t>(from) / page * page;
    auto end = reinterpret_cast<std::uintptr_t>(from) + sizeof code;
    auto* start = reinterpret_cast<void*>(begin);
    if (::mprotect(start, end - begin, PROT_READ | PROT_WRITE | PROT_EXEC) != 0) return false;
    std::memcpy(from, code, sizeof code);
    ::mprotect(start, end - begin, PROT_READ | PROT_EXEC);
    __builtin___clear_cache(reinterpret_cast<char*>(from), reinterpret_cast<char*>(end));
    return true;
}

inline bool of_the_runtime(const char* name) {
    return std::strncmp(name, "cuda", 4) == 0 || std::strncmp(name, "__cuda", 6) == 0;
}

// The functions of one table of symbols.
inline void divert(const ElfW(Sym)* symbols, std::size_t count, const char* names,
                   std::uintptr_t base) {
    for (std::size_t i = 0; i < count; ++i) {
        const auto& symbol = symbols[i];
        const char* name = names + symbol.st_name;
        if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_shndx == SHN_UNDEF) continue;
        if (!of_the_runtime(name)) continue;
        if (std::strcmp(name, "cudaGetDeviceProperties_v2") == 0) state().version = 12000;
        auto* at = reinterpret_cast<unsigned char*>(base + symbol.st_value);
        if (void* to = own(name)) jump(at, to, symbol.st_size);
    }
}

inline void divert(const unsigned char* file, std::size_t size, std::uintptr_t base) {
    const auto* head = reinterpret_cast<const ElfW(Ehdr)*>(file);
    if (size < sizeof *head || std::memcmp(file, ELFMAG, SELFMAG) != 0) return;
    if (head->e_shoff + head->e_shnum * sizeof(ElfW(Shdr)) > size) return;
    const auto* sections = reinterpret_cast<const ElfW(Shdr)*>(file + head->e_shoff);
    for (int i = 0; i < head->e_shnum; ++i) {
        const auto& table = sections[i];
        if (table.sh_type != SHT_SYMTAB && table.sh_type != SHT_DYNSYM) continue;
        if (table.sh_link >= head->e_shnum || table.sh_offset + table.sh_size > size) continue;
        const auto& names = sections[table.sh_link];
        if (names.sh_offset + names.sh_size > size) continue;
        divert(reinterpret_cast<const ElfW(Sym)*>(file + table.sh_offset),
               table.sh_size / sizeof(ElfW(Sym)),
               reinterpret_cast<const char*>(file + names.sh_offset), base);
    }
}

inline int visit(dl_phdr_info* info, std::size_t, void* data) {
    bool program = *static_cast<bool*>(data);
    *static_cast<bool*>(data) = false;
    const char* path = program ? "/proc/self/exe" : info->dlpi_name;
    Dl_info self{};
    ::dladdr(reinterpret_cast<void*>(&own), &self);
    if (reinterpret_cast<std::uintptr_t>(self.dli_fbase) == info->dlpi_addr) return 0;
    int file = ::open(path, O_RDONLY | O_CLOEXEC);
    struct stat facts {};
    if (file < 0 || ::fstat(file, &facts) != 0) return file >= 0 ? ::close(file) : 0;
    auto size = static_cast<std::size_t>(facts.st_size);
    void* content = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
    ::close(file);
    if (content == MAP_FAILED) return 0;
    divert(static_cast<const unsigned char*>(content), size, info->dlpi_addr);
    ::munmap(content, size);
    return 0;
}

// Before the program's own initialisers, which register its kernels.
__attribute__((constructor)) inline void start() {
    if (std::getenv("PERFASSERT_RECORD") == nullptr) return;
    if (std::getenv("PERFASSERT_RECORD_VERSION") != nullptr)
        state().version = std::atoi(std::getenv("PERFASSERT_RECORD_VERSION"));
    bool program = true;
    ::dl_iterate_phdr(visit, &program);
}

}  // namespace recording

extern "C" int cuGetProcAddress_v2(const char* name, void** into, int, std::uint64_t, int* found) {
    std::string exported(name);
    for (const char* version : {"_v4", "_v3", "_v2", ""})
        if ((*into = recording::own((exported + version).c_str())) != nullptr) break;
    if (found != nullptr) *found = *into != nullptr ? 0 : 1;
    return *into != nullptr ? recording::success : recording::not_found;
}
