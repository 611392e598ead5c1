// Block states with their stacks, kept from launch to launch.
#pragma once

namespace tkjit::sim {

// A list and no mutex: taking the whole list is one exchange, so that a fork() at any moment leaves it usable in the
// child.
inline Block* idle_blocks = nullptr;

inline void put_idle_blocks(Block* first) {
    while (first) {
        Block* rest = first->next_free;
        first->next_free = __atomic_load_n(&idle_blocks, __ATOMIC_RELAXED);
        while (!__atomic_compare_exchange_n(&idle_blocks, &first->next_free, first, true, __ATOMIC_RELEASE,
                                            __ATOMIC_RELAXED)) {
        }
        first = rest;
    }
}

/// Null if there is no memory.
inline Block* take_idle_block() {
    Block* block = __atomic_exchange_n(&idle_blocks, static_cast<Block*>(nullptr), __ATOMIC_ACQUIRE);
    if (block) {
        put_idle_blocks(block->next_free);
        block->next_free = nullptr;
        return block;
    }
    void* memory =
        mmap(nullptr, sizeof(Block), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? nullptr : static_cast<Block*>(memory);
}

#ifdef TKJIT_SIM_MEMORY
extern "C" void __asan_poison_memory_region(const volatile void* address, size_t bytes);

/// Only the bytes that the launch asked for may be used.
inline void poison_behind(Block& block, size_t bytes) {
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
