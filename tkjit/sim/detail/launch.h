// Blocks spread over OS threads.
//
// No pool of threads outlives a launch: many shared objects, each with its own copy of this code, live in one process,
// and a pool would not survive fork(). The caller starts alone, and helpers are created once the launch has already
// run for as long as creating them takes; so a small launch never pays for them and a large one loses nothing.
#pragma once

#include <pthread.h>
#include <sched.h>
#include <time.h>

namespace tkjit::sim {

inline constexpr size_t max_dynamic_shared_bytes = 227 << 10;
inline constexpr unsigned max_grid_y_or_z = 65535;
inline constexpr unsigned events_per_tick = 64;
inline constexpr unsigned events_per_early_tick = 8;  // while helpers may still be wanted: few, long threads count too
inline constexpr long long helper_creation_ns = 100000;  // of the first one, in a young process
inline constexpr int max_helpers = 255;

inline int requested_workers = 0;

/// Fixes the number of OS threads that a launch of this shared object uses; 0 means one for each available CPU.
inline void set_workers(int workers) { __atomic_store_n(&requested_workers, workers, __ATOMIC_RELAXED); }

inline int worker_limit() {
    const int requested = __atomic_load_n(&requested_workers, __ATOMIC_RELAXED);
    if (requested > 0) return requested;
    cpu_set_t available;
    return sched_getaffinity(0, sizeof(available), &available) == 0 ? CPU_COUNT(&available) : 1;
}

inline long long now_ns() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ll + now.tv_nsec;
}

/// The OS threads beside the caller. Only the caller looks at it.
struct Helpers {
    long long start_ns;
    bool considered;
    int count;
    pthread_t threads[max_helpers];
};

// Block states with their stacks, kept from launch to launch. A list and no mutex: taking the whole list is one
// exchange, so that a fork() at any moment leaves it usable in the child.
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

/// Makes room for a launch's dynamic shared memory. Page-aligned, more than the 1024 bytes that swizzled layouts need.
inline bool reserve_dynamic_shared(Block& block, size_t bytes) {
    if (bytes <= block.dynamic_shared_capacity) return true;
    if (block.dynamic_shared) munmap(block.dynamic_shared, block.dynamic_shared_capacity);
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const bool mapped = memory != MAP_FAILED;
    block.dynamic_shared = mapped ? static_cast<char*>(memory) : nullptr;
    block.dynamic_shared_capacity = mapped ? bytes : 0;
    return mapped;
}

/// Runs blocks of the grid on the calling OS thread until none is left or one has failed.
inline void work(Launch& launch, Helpers* helpers) {
    Block* block = take_idle_block();
    if (block == nullptr || !reserve_dynamic_shared(*block, launch.dynamic_shared_bytes)) {
        if (claim_fault(launch)) ErrorText(launch.error_text).append("out of memory for the state of a block");
        put_idle_blocks(block);
        return;
    }
    block->launch = &launch;
    block->helpers = helpers;
    block->thread_count = launch.block.x * launch.block.y * launch.block.z;
    block->events_until_tick = helpers && !helpers->considered ? events_per_early_tick : events_per_tick;
    current_block = block;
    blockDim = launch.block;
    gridDim = launch.grid;
    while (!launch_failed(launch)) {
        const unsigned long long linear_block = __atomic_fetch_add(&launch.next_block, 1ull, __ATOMIC_RELAXED);
        if (linear_block >= launch.block_count) break;
        run_block(*block, linear_block);
    }
    current_block = nullptr;
    block->launch = nullptr;
    put_idle_blocks(block);
}

inline void* help(void* launch) {
    work(*static_cast<Launch*>(launch), nullptr);
    return nullptr;
}

/// Creates as many OS threads as there are blocks and CPUs for. Where the system refuses one, the others do its work.
inline void create_helpers(Launch& launch, Helpers& helpers) {
    helpers.considered = true;
    const unsigned long long taken = __atomic_load_n(&launch.next_block, __ATOMIC_RELAXED);
    const unsigned long long left = taken < launch.block_count ? launch.block_count - taken : 0;
    int wanted = worker_limit() - 1;
    if (wanted > max_helpers) wanted = max_helpers;
    if (static_cast<unsigned long long>(wanted) > left) wanted = static_cast<int>(left);
    while (helpers.count < wanted && pthread_create(&helpers.threads[helpers.count], nullptr, help, &launch) == 0) {
        helpers.count++;
    }
}

/// Called every so many barriers and exits: leaves a launch that has failed elsewhere, creates helpers.
__attribute__((noinline)) inline void tick(Block& block) {
    block.events_until_tick = events_per_tick;
    if (launch_failed(*block.launch)) abandon_block(block);
    Helpers* helpers = block.helpers;
    if (helpers == nullptr || helpers->considered) return;
    if (now_ns() - helpers->start_ns > helper_creation_ns) {
        create_helpers(*block.launch, *helpers);
    } else {
        block.events_until_tick = events_per_early_tick;
    }
}

/// Refuses what a device refuses. True if the launch is possible.
inline bool check_launch(Launch& launch) {
    const uint3 grid = launch.grid, block = launch.block;
    ErrorText text(launch.error_text);
    if (grid.x == 0 || grid.y == 0 || grid.z == 0 || block.x == 0 || block.y == 0 || block.z == 0) {
        text.append("a grid of (%u, %u, %u) blocks of (%u, %u, %u) threads is empty", grid.x, grid.y, grid.z, block.x,
                    block.y, block.z);
    } else if (block.x > 1024 || block.y > 1024 || block.z > 64 ||
               1ull * block.x * block.y * block.z > max_threads_per_block) {
        text.append("a block of (%u, %u, %u) threads is too large: at most 1024 threads, and (1024, 1024, 64)", block.x,
                    block.y, block.z);
    } else if (grid.x > INT_MAX || grid.y > max_grid_y_or_z || grid.z > max_grid_y_or_z) {
        text.append("a grid of (%u, %u, %u) blocks is too large: at most (2147483647, 65535, 65535)", grid.x, grid.y,
                    grid.z);
    } else if (launch.dynamic_shared_bytes > max_dynamic_shared_bytes) {
        text.append("%zu bytes of dynamic shared memory are too many: at most %zu", launch.dynamic_shared_bytes,
                    max_dynamic_shared_bytes);
    } else {
        return true;
    }
    return false;
}

inline thread_local char error_text_of_thread[error_text_bytes];

/// Runs a grid of which each thread calls `run_thread(body)`. Null, or the text of the first fault.
__attribute__((noinline)) inline const char* launch_body(void (*run_thread)(const void*), const void* body, dim3 grid,
                                                         dim3 block, size_t dynamic_shared_bytes) {
    Launch launch{};
    launch.run_thread = run_thread;
    launch.body = body;
    launch.grid = grid;
    launch.block = block;
    launch.dynamic_shared_bytes = dynamic_shared_bytes;
    launch.error_text = error_text_of_thread;
    if (!check_launch(launch)) return launch.error_text;
    launch.block_count = 1ull * grid.x * grid.y * grid.z;

    Helpers helpers;  // not cleared: its array of threads is large
    helpers.start_ns = now_ns();
    helpers.considered = launch.block_count == 1;
    helpers.count = 0;
    work(launch, &helpers);
    for (int i = 0; i < helpers.count; i++) pthread_join(helpers.threads[i], nullptr);
    return launch.failed ? launch.error_text : nullptr;
}

/// Runs `kernel(arguments...)` on a grid, as `kernel<<<grid, block, dynamic_shared_bytes>>>` does on a device.
///
/// Returns when the grid is done: null, or an error text that stays valid until this OS thread's next launch. May be
/// called from several threads at once, and after fork(). Like on a device, each CUDA thread has its own copy of the
/// arguments, which are converted to the kernel's parameters once.
template <class... Parameters, class... Arguments>
const char* launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t dynamic_shared_bytes,
                   Arguments&&... arguments) {
    static_assert(sizeof...(Parameters) == sizeof...(Arguments), "the kernel takes another number of arguments");
    const auto body = [kernel, ... values = static_cast<Parameters>(static_cast<Arguments&&>(arguments))] {
        kernel(values...);
    };
    const auto run_thread = [](const void* body_address) { (*static_cast<decltype(body)*>(body_address))(); };
    return launch_body(run_thread, &body, grid, block, dynamic_shared_bytes);
}

}  // namespace tkjit::sim
