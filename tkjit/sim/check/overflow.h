// Records the last block's accesses to tensors, and reports signed overflow.
//
// The parent process (tkjit/check/overflow.py) launches a kernel with small and with huge tensors, and compares the places
// of the accesses. With -fsanitize=signed-integer-overflow, gcc and clang call the __ubsan functions. Source of their
// interface: gcc's libsanitizer/ubsan/ubsan_handlers.h.
#pragma once

#include "../detail/atomics.h"
#include "../detail/block.h"
#include "../detail/site.h"
#include "../detail/vector_types.h"
#include "../runtime/schedule.h"
#include "copies.h"
#include "endings.h"
#include "findings.h"

#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace tkjit::sim::check {

/// An access, as the parent process reads it.
struct LoggedAccess {
    uint64_t instruction;  // or the number of a line that is passed to the simulator, see number_of
    int64_t offset;        // from the tensor's first byte
    uint32_t tensor, thread, bytes;
    uint16_t launch, writes;
};

inline constexpr size_t most_accesses = 1 << 20;
inline std::vector<LoggedAccess> accesses;
inline const char* log_path;

struct TensorPlace {
    uintptr_t reserved, begin, end, reserved_end;
};
inline std::vector<TensorPlace> tensor_places;  // in the order of the arguments

[[noreturn]] inline void end_with_log() {
    const int file = open(log_path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    const char* const bytes = reinterpret_cast<const char*>(accesses.data());
    const size_t size = accesses.size() * sizeof(LoggedAccess);
    for (size_t done = 0; file >= 0 && done < size;) {
        const ssize_t put = ::write(file, bytes + done, size - done);
        if (put <= 0) _exit(2);
        done += static_cast<size_t>(put);
    }
    write_line(Json().text("kind", "done"));
    _exit(file < 0 ? 2 : 0);
}

/// Returns the number of the launch that runs, and tells its block and the shape of its blocks to the parent process.
inline uint16_t number_of_launch() {
    static unsigned last = 0;
    if (last == schedule::launches) return static_cast<uint16_t>(last);
    last = schedule::launches;
    const uint3 threads{blockDim.x, blockDim.y, blockDim.z};
    Json json;
    json.text("kind", "launch").number("number", last).index("block", blockIdx).index("threads", threads);
    write_line(json);
    return static_cast<uint16_t>(last);
}

inline void log_access(const void* pointer, size_t bytes, bool writes, uint64_t instruction) {
    if (current_thread == nullptr) return;
    const auto address = reinterpret_cast<uintptr_t>(pointer);
    for (const TensorPlace& place : tensor_places) {
        if (address < place.reserved || address >= place.reserved_end) continue;
        const bool is_outside = address < place.begin || address + bytes > place.end;
        if (is_outside || accesses.size() < most_accesses) {
            accesses.push_back({instruction, static_cast<int64_t>(address - place.begin),
                                static_cast<uint32_t>(&place - tensor_places.data()), current_thread->linear,
                                static_cast<uint32_t>(bytes), number_of_launch(), writes});
        }
        if (is_outside) end_with_log();  // it would be the last access in any case
        return;
    }
}

/// Returns a number for a line, and tells it to the parent process. It is too small to be an instruction's address.
inline uint64_t number_of(Site site) {
    static std::vector<Site> sites;
    for (size_t i = 0; i < sites.size(); i++)
        if (is_same_place(sites[i], site)) return i;
    sites.push_back(site);
    Json json;
    json.text("kind", "site").number("number", static_cast<long long>(sites.size()) - 1);
    write_line(json.text("file", site.file ? site.file : "").number("line", site.line));
    return sites.size() - 1;
}

bool may_use(const void* address, size_t bytes, const char* access, Site site) {
    log_access(address, bytes, strcmp(access, "write") == 0, number_of(site));
    return true;
}

inline void on_time_is_up(int, siginfo_t*, void*) {
    write_line(Json().text("kind", "late"));
    end_with_log();
}

// ---- signed overflow

struct OverflowData {
    struct { const char* file; uint32_t line, column; } place;
    const struct { uint16_t kind, info; char name[1]; }* type;  // info: twice the logarithm of the bits, + 1 if signed
};

/// Returns an operand, which is passed in a register if it has at most as many bits, or else by its address.
inline __int128 value_of(uint16_t info, uintptr_t passed) {
    const unsigned bits = 1u << (info >> 1);
    if (bits > 64) return *reinterpret_cast<const __int128*>(passed);
    return static_cast<int64_t>(passed << (64 - bits)) >> (64 - bits);
}

/// The place is in a kernel, or in the code for the host that launches it.
inline void report_overflow(const OverflowData* data, const char* operation, uintptr_t left, uintptr_t right) {
    const std::string file = data->place.file ? data->place.file : "";
    static std::set<std::tuple<std::string, uint32_t, uint32_t>> known;
    if (!known.emplace(file, data->place.line, data->place.column).second) return;
    const auto number = [&](uintptr_t passed) {
        return std::to_string(static_cast<long long>(value_of(data->type->info, passed)));
    };
    const std::string unary = std::string(operation) + number(left);
    Json json, here;
    here.text("access", "computed").text("file", file).number("line", data->place.line).numbers("calls", {});
    if (current_thread) here.index("block", blockIdx).index("thread", threadIdx);
    else here.numbers("block", {}).numbers("thread", {});
    json.text("kind", "overflow").text("type", data->type->name);
    json.text("expression", right ? number(left) + " " + operation + " " + number(right) : unary);
    write_line(json.object("here", here));
}

}  // namespace tkjit::sim::check

namespace tkjit::sim::hooks {

inline void note_read(const volatile void* address, size_t bytes, void* return_address) {
    check::log_access(const_cast<const void*>(address), bytes, false, reinterpret_cast<uintptr_t>(return_address) - 1);
}
inline void note_write(const volatile void* address, size_t bytes, void* return_address) {
    check::log_access(const_cast<const void*>(address), bytes, true, reinterpret_cast<uintptr_t>(return_address) - 1);
}
inline void note_load(const volatile void* address, size_t bytes, int, void* return_address) {
    note_read(address, bytes, return_address);
}
inline void note_store(const volatile void* address, size_t bytes, int, void* return_address) {
    note_write(address, bytes, return_address);
}
inline void note_update(const volatile void* address, size_t bytes, int, void* return_address) {
    note_write(address, bytes, return_address);
}
inline void note_volatile_read(const void* address, size_t bytes, void* return_address) {
    if (current_thread) note_possible_spin({"a volatile variable", 0});
    note_read(address, bytes, return_address);
}
inline void note_volatile_write(const void* address, size_t bytes, void* return_address) {
    note_write(address, bytes, return_address);
}
inline void enter_function(void*, void*) {}
inline void leave_function() {}
inline void note_fence() {}
inline void note_fence_in_block() {}

}  // namespace tkjit::sim::hooks

#define TKJIT_UBSAN extern "C" __attribute__((noinline, visibility("hidden"))) void
#define TKJIT_UBSAN_BINARY(name, operation)                                                                      \
    TKJIT_UBSAN __ubsan_handle_##name##_overflow(void* data, void* left, void* right) {                          \
        tkjit::sim::check::report_overflow(static_cast<const tkjit::sim::check::OverflowData*>(data), operation, \
                                           reinterpret_cast<uintptr_t>(left), reinterpret_cast<uintptr_t>(right)); \
    }
TKJIT_UBSAN_BINARY(add, "+")
TKJIT_UBSAN_BINARY(sub, "-")
TKJIT_UBSAN_BINARY(mul, "*")
TKJIT_UBSAN_BINARY(divrem, "/")
#undef TKJIT_UBSAN_BINARY
TKJIT_UBSAN __ubsan_handle_negate_overflow(void* data, void* operand) {
    tkjit::sim::check::report_overflow(static_cast<const tkjit::sim::check::OverflowData*>(data), "-",
                                       reinterpret_cast<uintptr_t>(operand), 0);
}
#undef TKJIT_UBSAN
