// Places for static variables in a block's window of shared memory.
#pragma once

#include "../detail/block.h"
#include "../detail/fault.h"
#include "../detail/site.h"
#include "../detail/window.h"
#include "fault.h"
#include "launch_state.h"

#include <string.h>

namespace tkjit::sim::ptx {
unsigned dynamic_smem_size();
unsigned total_smem_size();
}  // namespace tkjit::sim::ptx

namespace tkjit::sim {

inline unsigned static_slots = 0;

unsigned new_static_slot() { return static_slots++; }

/// Forgets what the block's last launch, perhaps of another launcher, had where.
inline void begin_window(Block& block, size_t dynamic_bytes) {
    const unsigned slots = static_slots < most_static_slots ? static_slots : most_static_slots;
    if (slots) memset(block.static_offsets, 0, slots * sizeof(block.static_offsets[0]));
    block.window_used = reserved_window_bytes + static_cast<unsigned>(dynamic_bytes);
}

__attribute__((noinline)) char* place_static(unsigned slot, unsigned bytes, unsigned alignment, Site site) {
    Block& block = *current_block;
    if (slot >= most_static_slots) {
        fail(site, "the simulator has room for %u declarations of shared memory in a launcher", most_static_slots);
    }
    if (alignment < 16) alignment = 16;
    const unsigned offset = (block.window_used + alignment - 1) / alignment * alignment;
    if (offset + bytes > window_bytes) {
        fail(site, "shared memory is full: %u bytes are used, and this variable needs %u more of %u",
             block.window_used - reserved_window_bytes, bytes, window_bytes - reserved_window_bytes);
    }
    block.window_used = offset + bytes;
    block.static_offsets[slot] = offset;
    return block.window + offset;
}

namespace ptx {

unsigned dynamic_smem_size() { return static_cast<unsigned>(current_block->launch->dynamic_shared_bytes); }
unsigned total_smem_size() { return current_block->window_used - reserved_window_bytes; }

}  // namespace ptx

[[noreturn]] __attribute__((noinline, cold)) void fail_outside_window(unsigned long long address, unsigned bytes,
                                                                      Site site) {
    fail(site, "the shared address 0x%llx, of %u bytes, is outside of the block's %u KiB", address, bytes,
         window_bytes >> 10);
}

}  // namespace tkjit::sim
