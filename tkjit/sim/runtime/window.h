// Finds places for static variables in a block's window of shared memory.
#pragma once

#include "../detail/block.h"
#include "../detail/cluster.h"
#include "../detail/fault.h"
#include "../detail/site.h"
#include "../detail/window.h"
#include "../check/race.h"
#include "fault.h"
#include "launch_state.h"
#ifdef TKJIT_SIM_MEMORY
#include "../check/regions.h"
#endif

#include <string.h>

namespace tkjit::sim::ptx {
unsigned dynamic_smem_size();
unsigned total_smem_size();
}  // namespace tkjit::sim::ptx

namespace tkjit::sim {

inline unsigned static_slots = 0;

unsigned new_static_slot() { return static_slots++; }

/// Forgets the places from the block's last launch, which may have been made by another launcher.
inline void begin_window(Block& block, size_t dynamic_bytes) {
    const unsigned slots = static_slots < most_static_slots ? static_slots : most_static_slots;
    if (slots) memset(block.static_offsets, 0, slots * sizeof(block.static_offsets[0]));
    block.window_used = reserved_window_bytes + static_cast<unsigned>(dynamic_bytes);
}

#ifdef TKJIT_SIM_MEMORY
extern "C" void __asan_poison_memory_region(const volatile void* address, size_t bytes);
extern "C" void __asan_unpoison_memory_region(const volatile void* address, size_t bytes);

inline constexpr unsigned room_beside_variables = 256;  // stays poisoned, so that writes past a variable are detected

inline void begin_variables(char* place, unsigned bytes, const char* name) {
    check::add_region(place, bytes, check::Space::static_shared, name, false);
    __asan_unpoison_memory_region(place, bytes);
}
#else
inline constexpr unsigned room_beside_variables = 0;
inline void begin_variables(char* place, unsigned bytes, const char* name) { race::begin_variables(place, bytes, name); }
#endif

__attribute__((noinline)) char* place_static(unsigned slot, unsigned bytes, unsigned alignment, const char* name,
                                             Site site) {
    Block& block = *current_block;
    if (slot >= most_static_slots) {
        fail(site, "the simulator supports at most %u declarations of shared memory in a launcher", most_static_slots);
    }
    if (alignment < 16) alignment = 16;
    const auto aligned_up = [=](unsigned place) { return (place + alignment - 1) / alignment * alignment; };
    unsigned offset = aligned_up(block.window_used + room_beside_variables);
    if (offset + bytes > window_bytes) offset = aligned_up(block.window_used);
    if (offset + bytes > window_bytes) {
        fail(site, "shared memory is full: %u bytes are used, and this variable needs %u more of %u",
             block.window_used - reserved_window_bytes, bytes, window_bytes - reserved_window_bytes);
    }
    // in the same place in all blocks of the cluster, whichever reaches it first
    for (unsigned i = 0; i < block.cluster->count; i++) {
        Block& each = *block.cluster->blocks[i];
        each.window_used = offset + bytes;
        each.static_offsets[slot] = offset;
        begin_variables(each.window + offset, bytes, name);
    }
    return block.window + offset;
}

namespace ptx {

unsigned dynamic_smem_size() { return static_cast<unsigned>(current_block->launch->dynamic_shared_bytes); }
unsigned total_smem_size() { return current_block->window_used - reserved_window_bytes; }

}  // namespace ptx

__attribute__((noinline)) char* in_cluster_window(unsigned long long address, unsigned bytes, Site site) {
    const unsigned long long rank = address >> rank_shift, offset = address & ((1u << rank_shift) - 1);
    const Cluster& cluster = *current_block->cluster;
    if (rank < cluster.count && offset <= window_bytes - bytes) {
        return cluster.blocks[rank]->window + offset;
    }
    // a generic address works as well on a device, which uses only the low bits
    const char* const generic = reinterpret_cast<const char*>(address);
    char* const window = owner_of(generic).window;
    if (static_cast<size_t>(generic - window) <= window_bytes - bytes) return window + (generic - window);
    fail(site, "the shared address 0x%llx, of %u bytes, is outside of the block's %u KiB", address, bytes,
         window_bytes >> 10);
}

/// A variable outside of all windows (in a source that is compiled in one step) keeps its distance from the own window, of
/// which swizzles use the lowest bits.
__attribute__((noinline)) size_t shared_address_of(const void* address) {
    const Block& owner = owner_of(address);
    if (&owner == current_block) return offset_in_window(address);
    return first_shared_address(owner) + static_cast<size_t>(static_cast<const char*>(address) - owner.window);
}

}  // namespace tkjit::sim
