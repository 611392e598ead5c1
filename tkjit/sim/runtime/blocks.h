// The states of blocks, with their stacks, which are kept from launch to launch.
#pragma once

#include "../detail/block.h"
#include "bulk_copies.h"
#include "fiber.h"
#include "pool.h"
#include "window.h"
#ifdef TKJIT_SIM_MEMORY
#include "../check/regions.h"
#endif

#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

namespace tkjit::sim {

#ifdef TKJIT_SIM_MEMORY
inline constexpr size_t mapped_window_bytes = window_bytes + (64 << 10);  // so that writes past the end are detected
#else
inline constexpr size_t mapped_window_bytes = window_bytes;
#endif

inline void unmap(Block* block) {
    unmap_stacks(*block);
    if (block->window) munmap(block->window, mapped_window_bytes);
    free(block->matrices);
    free(block->tensor_memory);
    free(block->thread_locals);
    for (Thread& thread : block->threads) free(thread.copies.copies);
    free_bulk_copies(*block);
    munmap(block, sizeof(Block));
}

/// Returns whether to keep a block for later launches. A block is dropped if some of its stacks got no guard because
/// the launch had many stacks: in the next launch there may be a guard for every stack. If the machine has so many CPUs
/// that there can never be enough guards, the block is kept.
inline bool is_worth_keeping(const Block& block) {
    return !block.lacks_guards || sysconf(_SC_NPROCESSORS_ONLN) * long{max_threads_per_block} > most_guard_mappings;
}

// Uses atomic slots instead of a mutex: if the process forked while a thread held the mutex, the child could never
// lock it.
inline void put_idle_block(Block* block) {
    if (block == nullptr) return;
    if (is_worth_keeping(*block)) {
        for (Block*& slot : pool().idle) {
            Block* empty = nullptr;
            if (__atomic_compare_exchange_n(&slot, &empty, block, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) return;
        }
    }
    unmap(block);
}

/// Returns an idle block or a new one, or null if there is no memory.
inline Block* take_idle_block() {
    for (Block*& slot : pool().idle) {
        if (__atomic_load_n(&slot, __ATOMIC_RELAXED) == nullptr) continue;
        if (Block* const block = __atomic_exchange_n(&slot, static_cast<Block*>(nullptr), __ATOMIC_ACQUIRE)) return block;
    }
    void* memory =
        mmap(nullptr, sizeof(Block), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? nullptr : static_cast<Block*>(memory);
}

#ifdef TKJIT_SIM_MEMORY
/// Allows access only to the bytes that the launch requested.
inline void poison_around(Block& block, size_t bytes) {
    check::remove_regions(block.window, window_bytes);
    check::add_region(block.dynamic_shared, bytes, check::Space::dynamic_shared, "", false);
    __asan_unpoison_memory_region(block.dynamic_shared, bytes);
    __asan_poison_memory_region(block.window, reserved_window_bytes);
    __asan_poison_memory_region(block.dynamic_shared + bytes, mapped_window_bytes - reserved_window_bytes - bytes);
}
#else
inline void poison_around(Block&, size_t) {}
#endif

/// Maps a window, which holds a block's shared memory. It begins at a multiple of 256 KiB, so that a pointer and the
/// shared-memory address that belongs to it have the same low 18 bits, as on a device: kernels make descriptors from
/// either of the two.
inline char* map_window() {
    constexpr size_t alignment = 256 << 10;
    const size_t reserved = mapped_window_bytes + alignment;
    void* const memory = mmap(nullptr, reserved, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return nullptr;
    char* const begin = static_cast<char*>(memory);
    char* const window = begin + (alignment - reinterpret_cast<uintptr_t>(begin) % alignment) % alignment;
    if (window > begin) munmap(begin, static_cast<size_t>(window - begin));
    char* const end = window + mapped_window_bytes;
    if (begin + reserved > end) munmap(end, static_cast<size_t>(begin + reserved - end));
    return window;
}

/// Maps the block's shared memory (only the pages that are used take up memory), and divides it for a launch.
inline bool reserve_window(Block& block, size_t dynamic_bytes) {
    if (block.window == nullptr) {
        block.window = map_window();
        if (block.window == nullptr) return false;
        block.dynamic_shared = block.window + reserved_window_bytes;
    }
    begin_window(block, dynamic_bytes);
    poison_around(block, dynamic_bytes);
    return true;
}

}  // namespace tkjit::sim
