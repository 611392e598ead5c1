// Block states with their stacks, kept from launch to launch.
#pragma once

#include "../detail/block.h"
#include "bulk_copies.h"
#include "fiber.h"
#include "pool.h"
#ifdef TKJIT_SIM_MEMORY
#include "../check/regions.h"
#endif

#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>

namespace tkjit::sim {

inline void unmap(Block* block) {
    for (unsigned i = 0; i < block->stack_count; i++) unmap_stack(block->stacks[i]);
    if (block->dynamic_shared) munmap(block->dynamic_shared, block->dynamic_shared_capacity);
    for (Thread& thread : block->threads) free(thread.copies.copies);
    free_bulk_copies(*block);
    munmap(block, sizeof(Block));
}

// Slots and no mutex, so that a fork() at any moment leaves them usable in the child.
inline void put_idle_block(Block* block) {
    if (block == nullptr) return;
    for (Block*& slot : pool().idle) {
        Block* empty = nullptr;
        if (__atomic_compare_exchange_n(&slot, &empty, block, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) return;
    }
    unmap(block);
}

/// Null if there is no memory.
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
extern "C" void __asan_poison_memory_region(const volatile void* address, size_t bytes);

/// Only the bytes that the launch asked for may be used.
inline void poison_behind(Block& block, size_t bytes) {
    check::add_region(block.dynamic_shared, bytes, check::Space::dynamic_shared, "", false);
    __asan_unpoison_memory_region(block.dynamic_shared, bytes);
    __asan_poison_memory_region(block.dynamic_shared + bytes, block.dynamic_shared_capacity - bytes);
}
inline constexpr size_t room_behind = 64 << 10;
#else
inline void poison_behind(Block&, size_t) {}
inline constexpr size_t room_behind = 0;
#endif

/// Makes room for a launch's dynamic shared memory. Page-aligned, more than the 1024 bytes that swizzled layouts need.
inline bool reserve_dynamic_shared(Block& block, size_t bytes) {
    if (bytes + room_behind > block.dynamic_shared_capacity) {
        if (block.dynamic_shared) munmap(block.dynamic_shared, block.dynamic_shared_capacity);
        const size_t capacity = bytes + room_behind;
        void* memory = mmap(nullptr, capacity, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        const bool mapped = memory != MAP_FAILED;
        block.dynamic_shared = mapped ? static_cast<char*>(memory) : nullptr;
        block.dynamic_shared_capacity = mapped ? capacity : 0;
        if (!mapped) return false;
    }
    poison_behind(block, bytes);
    return true;
}

}  // namespace tkjit::sim
