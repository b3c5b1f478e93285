// Device memory is host memory at addresses that nothing else has.
#pragma once

#include <sys/mman.h>

#include <cstdint>
#include <map>
#include <mutex>

#include "link.hpp"

namespace recording {

class Memory {
public:
    explicit Memory(Link& link) : link_(link) {
        // Reserved, not used: what is never written costs nothing.
        for (std::size_t size = std::size_t{1} << 40; size >= (std::size_t{1} << 30); size /= 2) {
            void* wished = reinterpret_cast<void*>(std::uintptr_t{0x2000} << 32);
            void* found = ::mmap(wished, size, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
            if (found == MAP_FAILED) continue;
            begin_ = next_ = reinterpret_cast<std::uintptr_t>(found);
            end_ = begin_ + size;
            return;
        }
    }

    // Null where there is no memory left; `limit` is that of the device.
    // `shared`: the host may write to it without a call.
    void* allocate(std::size_t size, std::size_t limit, bool shared = false) {
        std::lock_guard<std::mutex> lock(mutex_);
        std::size_t room = (size + page - 1) / page * page;
        if (size == 0 || size > limit || used_ + size > limit) return nullptr;
        std::uintptr_t at = reused(room);
        if (at == 0 && end_ - next_ > room + page) {
            at = next_;
            next_ += room + page;  // what runs over the end meets nobody else's data
        }
        if (at == 0) return nullptr;
        adopt(at, size, room, shared);
        return reinterpret_cast<void*>(at);
    }

    // Host memory that kernels can reach.
    void adopt(void* at, std::size_t size) {
        std::lock_guard<std::mutex> lock(mutex_);
        adopt(reinterpret_cast<std::uintptr_t>(at), size, 0, true);
    }

    // False for what is no allocation.
    bool release(void* pointer) {
        std::lock_guard<std::mutex> lock(mutex_);
        auto at = reinterpret_cast<std::uintptr_t>(pointer);
        auto found = live_.find(at);
        if (found == live_.end()) return false;
        auto [size, room] = found->second;
        live_.erase(found);
        used_ -= room > 0 ? size : 0;
        if (room > 0) {
            ::madvise(pointer, room, MADV_DONTNEED);
            free_.emplace(room, at);
        }
        link_.send(Message::freed, Writer().put<std::uint64_t>(at));
        return true;
    }

    // Whether all of it lies in one allocation.
    bool holds(const void* pointer, std::size_t size) {
        std::lock_guard<std::mutex> lock(mutex_);
        auto [start, length] = around(reinterpret_cast<std::uintptr_t>(pointer));
        return length > 0 && reinterpret_cast<std::uintptr_t>(pointer) + size <= start + length;
    }

    bool made_here(const void* pointer) const {
        auto at = reinterpret_cast<std::uintptr_t>(pointer);
        return begin_ <= at && at < end_;
    }

    std::size_t used() const { return used_; }

    void written(const void* at, std::size_t size) {
        link_.send(Message::written, Writer().put(at).put<std::uint64_t>(size));
    }

    void copied(const void* into, const void* from, std::size_t size) {
        link_.send(Message::copied, Writer().put(into).put(from).put<std::uint64_t>(size));
    }

private:
    static constexpr std::size_t page = 4096;

    struct Held { std::size_t size, room; };

    void adopt(std::uintptr_t at, std::size_t size, std::size_t room, bool shared) {
        live_[at] = {size, room};
        used_ += room > 0 ? size : 0;
        Writer event;
        event.put<std::uint64_t>(at).put<std::uint64_t>(size).put<std::uint32_t>(shared);
        link_.send(Message::allocated, event);
    }

    std::uintptr_t reused(std::size_t room) {
        auto found = free_.find(room);
        if (found == free_.end()) return 0;
        std::uintptr_t at = found->second;
        free_.erase(found);
        return at;
    }

    std::pair<std::uintptr_t, std::size_t> around(std::uintptr_t at) {
        auto next = live_.upper_bound(at);
        if (next == live_.begin()) return {0, 0};
        auto found = std::prev(next);
        bool in = at < found->first + found->second.size || at == found->first;
        return in ? std::make_pair(found->first, found->second.size)
                  : std::make_pair(std::uintptr_t{0}, std::size_t{0});
    }

    Link& link_;
    std::mutex mutex_;
    std::uintptr_t begin_ = 0, end_ = 0, next_ = 0;
    std::size_t used_ = 0;
    std::map<std::uintptr_t, Held> live_;
    std::multimap<std::size_t, std::uintptr_t> free_;
};

}  // namespace recording
