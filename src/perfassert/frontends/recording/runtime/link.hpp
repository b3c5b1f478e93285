// The connection to `perfassert record`: events go out, facts about the device and the code come in.
//
// A message is its kind and its size, 32 bits each, and what belongs to it, all little-endian.
// Without PERFASSERT_RECORD in the environment nothing is recorded and every call still succeeds.
#pragma once

#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace recording {

enum class Message : std::uint32_t {
    hello = 1, module = 2, function = 3, launch = 4, allocated = 5, freed = 6, written = 7,
    copied = 8, constant = 9, refused = 10, occupancy = 11, unknown_attribute = 12, symbol = 13,
};

enum class Wish : std::uint32_t { done = 0, read = 1, write = 2 };

using Bytes = std::vector<unsigned char>;

class Writer {
public:
    template <class T> Writer& put(T value) { return raw(&value, sizeof value); }
    Writer& text(std::string_view value) {
        put<std::uint32_t>(static_cast<std::uint32_t>(value.size()));
        return raw(value.data(), value.size());
    }
    Writer& raw(const void* from, std::size_t size) {
        const auto* begin = static_cast<const unsigned char*>(from);
        content.insert(content.end(), begin, begin + size);
        return *this;
    }
    Bytes content;
};

class Reader {
public:
    explicit Reader(Bytes from) : content(std::move(from)) {}
    template <class T> T get() {
        T value{};
        if (at + sizeof value <= content.size()) std::memcpy(&value, &content[at], sizeof value);
        at += sizeof value;
        return value;
    }
    std::string text() {
        auto size = get<std::uint32_t>();
        if (at + size > content.size()) return {};
        std::string found(reinterpret_cast<const char*>(&content[at]), size);
        at += size;
        return found;
    }
    bool more() const { return at < content.size(); }

private:
    Bytes content;
    std::size_t at = 0;
};

// One per process. A forked child is no part of the recording: a GPU could not follow it either.
class Link {
public:
    Link() {
        const char* path = std::getenv("PERFASSERT_RECORD");
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        if (path == nullptr || std::strlen(path) >= sizeof address.sun_path) return;
        std::strcpy(address.sun_path, path);
        fd_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd_ >= 0 && ::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
            close();
        owner_ = ::getpid();
    }

    bool open() const { return fd_ >= 0 && owner_ == ::getpid(); }

    void send(Message kind, const Writer& message) {
        std::lock_guard<std::mutex> lock(mutex_);
        put(static_cast<std::uint32_t>(kind), message.content);
    }

    Bytes ask(Message kind, const Writer& message) {
        std::lock_guard<std::mutex> lock(mutex_);
        put(static_cast<std::uint32_t>(kind), message.content);
        Bytes answer;
        get(answer);
        return answer;
    }

    // The other side looks at memory, and may change it, before the program goes on.
    void attend(Message kind, const Writer& message) {
        std::lock_guard<std::mutex> lock(mutex_);
        put(static_cast<std::uint32_t>(kind), message.content);
        Bytes wish;
        while (get(wish) != Wish::done && open()) {
            Reader from(wish);
            auto* at = reinterpret_cast<unsigned char*>(from.get<std::uint64_t>());
            auto size = from.get<std::uint64_t>();
            if (wish.size() > 16) std::memcpy(at, &wish[16], wish.size() - 16);
            else put(0, at, size);
        }
    }

private:
    void close() {
        if (fd_ >= 0) ::close(fd_);
        fd_ = -1;
    }

    void put(std::uint32_t kind, const Bytes& content) { put(kind, content.data(), content.size()); }

    void put(std::uint32_t kind, const unsigned char* content, std::uint64_t size) {
        struct { std::uint32_t kind, zero; std::uint64_t size; } head{kind, 0, size};
        write(&head, sizeof head);
        write(content, size);
    }

    Wish get(Bytes& content) {
        struct { std::uint32_t kind, zero; std::uint64_t size; } head{};
        read(&head, sizeof head);
        content.resize(open() ? head.size : 0);
        read(content.data(), content.size());
        return open() ? static_cast<Wish>(head.kind) : Wish::done;
    }

    void write(const void* from, std::size_t size) {
        const auto* at = static_cast<const char*>(from);
        while (size > 0 && open()) {
            ssize_t sent = ::send(fd_, at, size, MSG_NOSIGNAL);
            if (sent < 0 && errno == EINTR) continue;
            if (sent <= 0) return close();
            at += sent;
            size -= static_cast<std::size_t>(sent);
        }
    }

    void read(void* into, std::size_t size) {
        auto* at = static_cast<char*>(into);
        while (size > 0 && open()) {
            ssize_t got = ::recv(fd_, at, size, 0);
            if (got < 0 && errno == EINTR) continue;
            if (got <= 0) return close();
            at += got;
            size -= static_cast<std::size_t>(got);
        }
    }

    int fd_ = -1;
    pid_t owner_ = 0;
    std::mutex mutex_;
};

}  // namespace recording
