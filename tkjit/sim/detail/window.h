// The window of shared memory: the meaning of 32-bit addresses, and the places of a block's variables.
//
// A block's window is one mapping. As on a device, its first KiB is reserved for the system. Dynamic shared memory
// comes next, and static variables follow in the order in which the block reaches them. Source: CUDA C++ Programming
// Guide, "Compute Capability 9.0": 228 KiB, of which each block reserves 1 KiB.
#pragma once

#include "block.h"
#include "fault.h"
#include "site.h"

#include <stddef.h>
#include <stdint.h>

namespace tkjit::sim {

inline constexpr unsigned window_bytes = 228 << 10;
inline constexpr unsigned reserved_window_bytes = 1 << 10;

/// Returns an address within the block's window. A variable may be outside of the window (in a source that is compiled
/// in one step); then only the low ten bits, which swizzles are computed from, match the variable's real address.
inline size_t offset_in_window(const void* address) {
    return reinterpret_cast<uintptr_t>(address) - reinterpret_cast<uintptr_t>(current_block->window);
}

// In a shared address of 32 bits, the upper eight bits are the rank in its cluster of the block whose window it refers to, as
// on a device: CUTLASS clears the lowest of them to reach the first block of a pair.
inline constexpr unsigned rank_shift = 24;

inline size_t first_shared_address(const Block& block) { return static_cast<size_t>(block.cluster_rank) << rank_shift; }

/// Returns the memory at an address in another block's window, or fails.
char* in_cluster_window(unsigned long long address, unsigned bytes, Site site);

/// Returns the shared::cluster address of memory outside of the block's own window.
size_t shared_address_of(const void* address);

/// Returns the memory at an address in the window.
inline char* in_window(unsigned long long address, unsigned bytes, Site site) {
    const unsigned long long offset = address - first_shared_address(*current_block);
    if (__builtin_expect(offset > window_bytes - bytes, false)) return in_cluster_window(address, bytes, site);
    return current_block->window + offset;
}

/// Returns the slot for a static shared variable. Each instance of a template has its own slot.
unsigned new_static_slot();

/// Finds a place for the variable of a slot in the running block.
char* place_static(unsigned slot, unsigned bytes, unsigned alignment, const char* name, Site site);

template <class Variable>
struct StaticSlot {
    static const unsigned number;
};
template <class Variable>
const unsigned StaticSlot<Variable>::number = new_static_slot();

/// Returns the struct that holds a `__shared__` variable.
template <class Variable>
inline Variable& static_shared(Site site = Site::here()) {
    const unsigned slot = StaticSlot<Variable>::number;
    const unsigned offset = slot < most_static_slots ? current_block->static_offsets[slot] : 0;
    char* const found = offset ? current_block->window + offset
                               : place_static(slot, sizeof(Variable), alignof(Variable), Variable::tkjit_name(), site);
    return *reinterpret_cast<Variable*>(found);
}

}  // namespace tkjit::sim

inline size_t __cvta_generic_to_shared(const void* address) {
    const size_t offset = tkjit::sim::offset_in_window(address);
    if (offset >= tkjit::sim::window_bytes) return tkjit::sim::shared_address_of(address);
    return tkjit::sim::first_shared_address(*tkjit::sim::current_block) + offset;
}

inline void* __cvta_shared_to_generic(size_t shared_address, tkjit::sim::Site site = tkjit::sim::Site::here()) {
    // Only in a cluster can the address be in another block's window. Otherwise a variable outside of the window keeps
    // its distance from it.
    const tkjit::sim::Block& block = *tkjit::sim::current_block;
    if (block.cluster->count == 1) return block.window + shared_address;
    return tkjit::sim::in_window(shared_address, 0, site);
}

inline size_t __cvta_generic_to_global(const void* address) { return reinterpret_cast<size_t>(address); }
inline void* __cvta_global_to_generic(size_t address) { return reinterpret_cast<void*>(address); }
