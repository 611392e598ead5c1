// Turns AddressSanitizer's reports into findings.
//
// AddressSanitizer has to be informed about fibers' stacks (runtime/fiber.h), the end of dynamic shared memory
// (runtime/blocks.h), and red zones for the shared variables to which gcc gives none. For these variables, the build
// puts a gap next to each one and stores the gap's address in the section tkjit_gaps (tkjit/check/plan.py).
#pragma once

#include "../detail/block.h"
#include "../detail/site.h"
#include "../detail/vector_types.h"
#include "copies.h"
#include "findings.h"
#include "regions.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <mutex>
#include <set>
#include <utility>

extern "C" {
void __asan_set_error_report_callback(void (*callback)(const char* report));
uintptr_t __asan_get_report_address();
int __asan_get_report_access_type();
size_t __asan_get_report_access_size();
const char* __asan_get_report_description();
void* __asan_region_is_poisoned(void* begin, size_t bytes);
void __asan_unpoison_memory_region(const volatile void* address, size_t bytes);
void __asan_poison_memory_region(const volatile void* address, size_t bytes);
extern char* __start_tkjit_gaps[] __attribute__((weak, visibility("hidden")));
extern char* __stop_tkjit_gaps[] __attribute__((weak, visibility("hidden")));

/// Options that make AddressSanitizer report all of a kernel's mistakes, but nothing after the launch.
__attribute__((visibility("default"))) const char* __asan_default_options() {
    return "halt_on_error=0:detect_leaks=0:detect_stack_use_after_return=0:handle_abort=0:handle_sigfpe=0:handle_sigill=0:"
           "print_legend=0:"
           "max_malloc_fill_size=0:symbolize=0:color=never";
}
}

namespace tkjit::sim::check {

inline constexpr size_t gap_bytes = 256;

inline void note_report(const char* text) {
    uintptr_t address = __asan_get_report_address();
    // for an access to unmapped memory, the rest is only in the text
    const bool is_write = __asan_get_report_access_type() || strstr(text, "caused by a WRITE");
    const char* const unknown = strstr(text, "unknown address 0x");
    if (address == 0 && unknown) address = strtoull(unknown + strlen("unknown address "), nullptr, 16);
    const char* const what = __asan_get_report_description();
    const bool ends = strstr(text, "on unknown address") || strcmp(what, "stack-overflow") == 0;
    Json json;
    json.text("kind", "memory").text("what", what).text("report", text).number("ends", ends);
    json.number("bytes", static_cast<long long>(__asan_get_report_access_size()));
    add_nearest(json, address);
    Json here;
    here.numbers("calls", {}).text("access", is_write ? "write" : "read");
    here.index("block", blockIdx).index("thread", threadIdx);
    write_line(json.object("here", here));
}

inline std::mutex told_lock;

bool may_use(const void* address, size_t bytes, const char* access, Site site) {
    const void* const bad = bytes ? __asan_region_is_poisoned(const_cast<void*>(address), bytes) : nullptr;
    if (bad == nullptr) return true;
    static std::set<std::pair<const char*, int>> told;  // a wgmma asks once per 16 bytes; report only once
    const std::lock_guard guard(told_lock);
    if (!told.insert({site.file, static_cast<int>(site.line)}).second) return false;
    Json json, here;
    json.text("kind", "memory").text("what", "an asynchronous copy").number("bytes", static_cast<long long>(bytes));
    json.number("address", static_cast<long long>(reinterpret_cast<uintptr_t>(bad)));
    add_nearest(json, reinterpret_cast<uintptr_t>(bad));
    here.numbers("calls", {}).text("file", site.file).number("line", site.line).text("access", access);
    here.index("block", blockIdx).index("thread", threadIdx);
    write_line(json.object("here", here));
    return false;
}

/// The compiler's description of an access that it checks under -fsanitize=alignment. Source: gcc/ubsan.c,
/// compiler-rt's ubsan.
struct AlignmentCheck {
    struct {
        const char* file;
        unsigned line, column;
    } place;
    const void* type;
    unsigned char alignment_log2;
    unsigned char access;  // 1: a store
};

/// Reports an access to a misaligned vector, which is an error on a device, but not on the CPU. No access needs an
/// alignment of more than 16 bytes, even if its type asks for more.
inline void note_misaligned(const AlignmentCheck& check, uintptr_t address, uintptr_t caller) {
    static std::set<const AlignmentCheck*> noted;
    const unsigned bytes = check.alignment_log2 < 4 ? 1u << check.alignment_log2 : 16;
    if (address % bytes == 0 || current_thread == nullptr || !noted.insert(&check).second) return;
    Json json, here;
    json.text("kind", "memory").text("what", "misaligned").number("bytes", static_cast<long long>(bytes));
    add_nearest(json, address);
    here.numbers("calls", {caller - 1}).text("access", check.access == 1 ? "write" : "read");
    here.index("block", blockIdx).index("thread", threadIdx);
    write_line(json.object("here", here));
}

inline void begin_memory_check() {
    __asan_set_error_report_callback(note_report);
    for (char** gap = __start_tkjit_gaps; gap != __stop_tkjit_gaps; gap++) __asan_poison_memory_region(*gap, gap_bytes);
}

/// Allows access to a tensor from its first byte to its last, but not to the memory around it.
inline void fence_off(char* begin, char* end, char* room_begin, char* room_end) {
    __asan_poison_memory_region(room_begin, static_cast<size_t>(room_end - room_begin));
    __asan_unpoison_memory_region(begin, static_cast<size_t>(end - begin));
}

}  // namespace tkjit::sim::check

// Weak, because clang's AddressSanitizer also defines this function, although nothing calls it there.
extern "C" __attribute__((weak, visibility("hidden"))) void __ubsan_handle_type_mismatch_v1(
    tkjit::sim::check::AlignmentCheck* check, uintptr_t address) {
    const auto caller = reinterpret_cast<uintptr_t>(__builtin_return_address(0));
    tkjit::sim::check::note_misaligned(*check, address, caller);
}
