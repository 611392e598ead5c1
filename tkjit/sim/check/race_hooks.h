// Passes each access of an instrumented kernel to the race detector.
#pragma once

#include "../detail/atomics.h"
#include "../detail/block.h"
#include "../detail/statement.h"
#include "places.h"
#include "race.h"
#include "race_accesses.h"
#include "race_detector.h"
#include "race_products.h"
#include "race_state.h"
#include "regions.h"
#include "shadow.h"

#include <stddef.h>
#include <stdint.h>

namespace tkjit::sim::race {

/// Returns an address within the calling instruction, not after it.
inline uintptr_t before(void* return_address) { return reinterpret_cast<uintptr_t>(return_address) - 1; }

inline unsigned place_before(void* return_address) {
    return places.at(calling_place(state_of(*current_thread)), before(return_address));
}

/// Returns whether an access is made by a kernel, to memory that threads share.
inline bool concerns(const void* address) {
    return current_thread && check::region_of(reinterpret_cast<uintptr_t>(address));
}

/// Records that host code, such as a cudaMemcpy, has written memory. It runs while no launch does.
inline void note_host_access(const void* pointer, size_t bytes, bool is_write) {
    const auto address = reinterpret_cast<uintptr_t>(pointer);
    const Region* const region = is_write ? check::region_of(address) : nullptr;
    if (region == nullptr || !region->starts_blank) return;
    if (address == region->begin && bytes >= region->end - region->begin) {
        check::set_written(*region);  // cells would take forty times the memory of what may be a large workspace
        return;
    }
    if (address + bytes > region->end) bytes = region->end - address;
    shadow.for_each(address, bytes, [](Cell& cell, uintptr_t, unsigned) {
        cell = {};
        cell.write.kind = plain;
    });
}

inline void note_plain(const void* address, size_t bytes, bool is_write, void* return_address) {
    if (current_thread == nullptr) return note_host_access(address, bytes, is_write);
    if (check::region_of(reinterpret_cast<uintptr_t>(address)) || is_of_absent_block(address)) {
        access(address, bytes, is_write, !is_write, plain, place_before(return_address));
    } else if (const PendingRegisters* const used = find_pending_registers(address, bytes, is_write)) {
        report_registers(*used, is_write, place_before(return_address));
    } else if (is_write && records_register_writes(address)) {
        note_register_write(address, bytes, place_before(return_address));
    }
}
inline void note_read(const void* address, size_t bytes, void* return_address) {
    note_plain(address, bytes, false, return_address);
}
inline void note_write(const void* address, size_t bytes, void* return_address) {
    note_plain(address, bytes, true, return_address);
}

inline void note_atomic(const volatile void* pointer, size_t bytes, bool reads, bool writes, int order,
                        void* return_address, Kind kind = atomic) {
    const void* const address = const_cast<const void*>(pointer);
    if (!concerns(address)) return;
    order &= 0xffff;
    const bool releases = order >= __ATOMIC_RELEASE;
    const bool acquires = order != __ATOMIC_RELAXED && order != __ATOMIC_RELEASE;
    const Scope scope = state_of(*current_thread).scope;
    if (kind == atomic && scope != Scope::device) kind = scope == Scope::block ? block_atomic : cluster_atomic;
    atomic_access(address, bytes, writes, reads, acquires, releases, kind, place_before(return_address));
}
inline void note_load(const volatile void* address, size_t bytes, int order, void* return_address) {
    note_atomic(address, bytes, true, false, order, return_address);
}
inline void note_store(const volatile void* address, size_t bytes, int order, void* return_address) {
    note_atomic(address, bytes, false, true, order, return_address);
}
inline void note_update(const volatile void* address, size_t bytes, int order, void* return_address) {
    note_atomic(address, bytes, true, true, order, return_address);
}

// Kernels wait for flags with volatile accesses. These count as atomics without an order, and let other threads run.
inline Kind kind_of_volatile = volatile_access;  // or `atomic`, which trusts that the hardware performs them atomically

inline void note_volatile_read(const void* address, size_t bytes, void* return_address) {
    if (!concerns(address)) return;
    note_possible_spin({"a volatile variable", 0});
    note_atomic(address, bytes, true, false, __ATOMIC_RELAXED, return_address, kind_of_volatile);
}
inline void note_volatile_write(const void* address, size_t bytes, void* return_address) {
    note_atomic(address, bytes, false, true, __ATOMIC_RELAXED, return_address, kind_of_volatile);
}

/// `frame` is the stack pointer of the function that is entered, below its local variables.
inline void enter_function(void* return_address, void* frame) {
    if (current_thread == nullptr) return;
    ThreadState& state = state_of(*current_thread);
    // the simulator calls kernels from several places, which must not make a difference
    state.calls.push_back(state.calls.empty() ? check::Places::root : place_before(return_address));
    state.frames.push_back(reinterpret_cast<uintptr_t>(frame));
}
/// Forgets registers that were variables of the function, because later calls use the same memory for other variables.
inline void leave_function() {
    if (current_thread == nullptr) return;
    ThreadState& state = state_of(*current_thread);
    if (state.calls.empty()) return;
    state.calls.pop_back();
    state.frames.pop_back();
    const uintptr_t live = state.frames.empty() ? 0 : state.frames.back();
    std::erase_if(state.pending_registers, [&](const PendingRegisters& one) { return one.begin < live; });
    std::erase_if(state.written_registers, [&](const auto& one) { return one.first * register_bytes < live; });
}
inline void note_fence() {
    if (current_thread) fence(state_of(*current_thread).scope);
}
inline void note_fence_in_block() {
    if (current_thread) fence(Scope::block);
}

}  // namespace tkjit::sim::race

namespace tkjit::sim {
namespace hooks = race;

void begin_statement() {
    if (current_thread) race::state_of(*current_thread).statement = race::before(__builtin_return_address(0));
}
void end_statement() {
    if (current_thread) race::state_of(*current_thread).statement = 0;
}
}  // namespace tkjit::sim
