// What one process has told the stand-in: its code, its symbols, its device.
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <unordered_map>

#include "memory.hpp"

namespace recording {

// The numbers are those of cudaError and CUresult alike.
enum Status : int {
    success = 0, invalid_value = 1, out_of_memory = 2, invalid_device = 101, invalid_image = 200,
    not_found = 500, not_ready = 600, not_supported = 801, invalid_configuration = 9,
    invalid_symbol = 13, invalid_device_function = 98,  // of the runtime only
};

struct Extent { unsigned x, y, z; };  // dim3

struct Module {
    std::uint32_t id;
    const void* image;
    std::size_t size;
    bool sent = false;
};

struct Facts {  // of a kernel, as its code says
    int status = not_found, registers = 0, shared = 0, local = 0, constants = 0, threads = 0,
        binary = 0, ptx = 0;
    std::vector<std::pair<std::uint32_t, std::uint32_t>> parameters;  // offset, size
};

struct Function {
    Module* module;
    std::string name;
    bool known = false;
    Facts facts;
};

struct Variable {
    Module* module;
    std::string name;
    std::size_t size;
    bool constant;
    void* memory = nullptr;
};

struct LaunchShape {
    Extent grid{1, 1, 1}, block{1, 1, 1}, cluster{1, 1, 1};
    std::size_t shared = 0;
    const void* stream = nullptr;
};

class State {
public:
    State() : memory(link) {
        if (!link.open()) return;
        Reader from(link.ask(Message::hello, Writer().put<std::uint32_t>(
            static_cast<std::uint32_t>(::getpid()))));
        attentive_ = from.get<std::uint32_t>() != 0;
        name = from.text();
        total = from.get<std::uint64_t>();
        while (from.more()) {
            int number = from.get<std::int32_t>();
            attributes[number] = from.get<std::int32_t>();
        }
    }

    Module* load(const void* image, std::size_t size) {
        std::lock_guard<std::recursive_mutex> lock(mutex);
        modules.push_back({static_cast<std::uint32_t>(modules.size()), image, size});
        return &modules.back();
    }

    Function* function(Module* module, const char* called) {
        std::lock_guard<std::recursive_mutex> lock(mutex);
        auto& found = by_name[{module->id, called}];
        if (!found) found.reset(new Function{module, called, false, {}});
        return found.get();
    }

    const Facts& facts(Function* of) {
        std::lock_guard<std::recursive_mutex> lock(mutex);
        if (of->known || !link.open()) return of->facts;
        send(of->module);
        Writer question;
        question.put(of->module->id).text(of->name);
        Reader from(link.ask(Message::function, question));
        Facts& f = of->facts;
        for (int* one : {&f.status, &f.registers, &f.shared, &f.local, &f.constants, &f.threads,
                         &f.binary, &f.ptx})
            *one = from.get<std::int32_t>();
        while (from.more()) {
            auto offset = from.get<std::uint32_t>();
            f.parameters.emplace_back(offset, from.get<std::uint32_t>());
        }
        of->known = true;
        return f;
    }

    int launch(Function* of, const LaunchShape& shape, void** arguments) {
        const Facts& known = facts(of);
        if (known.status != success) return known.status;
        Bytes content;
        for (std::size_t i = 0; i < known.parameters.size(); ++i) {
            auto [offset, size] = known.parameters[i];
            content.resize(std::max<std::size_t>(content.size(), offset + size));
            std::memcpy(&content[offset], arguments[i], size);
        }
        return launch(of, shape, content);
    }

    int launch(Function* of, const LaunchShape& shape, const Bytes& arguments) {
        const Facts& known = facts(of);
        if (known.status != success) return known.status;
        const auto& [grid, block, cluster, shared, stream] = shape;
        if (const char* why = impossible(shape, known)) {
            link.send(Message::refused, Writer().text("launch of " + of->name + ", " + why));
            return invalid_configuration;
        }
        Writer event;
        event.put(of->module->id).put(grid).put(block).put(cluster);
        event.put<std::uint32_t>(static_cast<std::uint32_t>(shared)).put(stream);
        event.text(of->name).raw(arguments.data(), arguments.size());
        std::lock_guard<std::recursive_mutex> lock(mutex);
        if (attentive_) link.attend(Message::launch, event);
        else link.send(Message::launch, event);
        return success;
    }

    int occupancy(Function* of, int block, std::size_t shared) {
        if (facts(of).status != success || !link.open()) return 0;
        Writer question;
        question.put(of->module->id).put<std::int32_t>(block);
        question.put<std::uint32_t>(static_cast<std::uint32_t>(shared)).text(of->name);
        return Reader(link.ask(Message::occupancy, question)).get<std::int32_t>();
    }

    // Where a variable of the device lies; its content starts as its file has it.
    void* place(Variable& variable) {
        std::lock_guard<std::recursive_mutex> lock(mutex);
        if (variable.memory == nullptr) {
            variable.memory = memory.allocate(variable.size, ~std::size_t{0} / 4);
            Writer event;
            event.put(variable.memory).put(variable.module->id).text(variable.name);
            send(variable.module);
            Bytes initial = link.ask(Message::symbol, event);
            std::memcpy(variable.memory, initial.data(), std::min(initial.size(), variable.size));
        }
        return variable.memory;
    }

    int attribute(int number) {
        auto found = attributes.find(number);
        if (found != attributes.end()) return found->second;
        link.send(Message::unknown_attribute, Writer().put<std::int32_t>(number));
        return 0;
    }

    int refuse(const char* call) {
        link.send(Message::refused, Writer().text(call));
        return not_supported;
    }

    Link link;
    Memory memory;
    std::string name = "no device";
    std::uint64_t total = std::uint64_t{1} << 34;
    std::map<int, int> attributes;
    std::recursive_mutex mutex;
    std::deque<Module> modules;
    std::map<std::pair<std::uint32_t, std::string>, std::unique_ptr<Function>> by_name;
    std::unordered_map<const void*, Function*> kernels;     // by what stands for them on the host
    std::unordered_map<const void*, Variable> variables;
    int version = 13000;  // of the runtime that the program was compiled for

private:
    const char* impossible(const LaunchShape& shape, const Facts& known) {
        auto volume = [](const Extent& e) { return std::uint64_t{e.x} * e.y * e.z; };
        auto threads = static_cast<std::int64_t>(volume(shape.block));
        if (volume(shape.grid) == 0 || threads == 0) return "which has no thread";
        if (attribute(1) > 0 && threads > attribute(1)) return "whose blocks are too large";
        auto beyond = [this](unsigned blocks, int limit) {
            return attribute(limit) > 0 && blocks > static_cast<unsigned>(attribute(limit));
        };
        if (beyond(shape.grid.y, 6) || beyond(shape.grid.z, 7)) return "whose grid is too large";
        auto shared = static_cast<std::int64_t>(shape.shared) + known.shared;
        if (attribute(97) > 0 && shared > attribute(97)) return "which needs too much shared memory";
        return nullptr;
    }

    void send(Module* module) {
        if (module->sent) return;
        Writer event;
        event.put(module->id).raw(module->image, module->size);
        link.send(Message::module, event);
        module->sent = true;
    }

    bool attentive_ = false;
};

// Never destroyed: programs call the runtime until their very end.
inline State& state() {
    static State* only = new State;
    return *only;
}

// Bytes of a fat binary, a cubin or PTX text, which carry their size in themselves.
inline std::size_t image_size(const void* image) {
    const auto* at = static_cast<const unsigned char*>(image);
    auto number = [at](std::size_t offset, auto kind) {
        std::memcpy(&kind, at + offset, sizeof kind);
        return static_cast<std::size_t>(kind);
    };
    if (number(0, std::uint32_t{}) == 0xBA55ED50)
        return number(6, std::uint16_t{}) + number(8, std::uint64_t{});
    if (std::memcmp(at, "\x7f" "ELF", 4) == 0) {
        std::size_t sections = number(40, std::uint64_t{}) +
                               number(58, std::uint16_t{}) * number(60, std::uint16_t{});
        std::size_t segments = number(32, std::uint64_t{}) +
                               number(54, std::uint16_t{}) * number(56, std::uint16_t{});
        return std::max(sections, segments);
    }
    return std::strlen(static_cast<const char*>(image));
}

}  // namespace recording
