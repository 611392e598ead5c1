// The state that the OS threads of a launch share.
#pragma once

#include "../detail/block.h"
#include "../detail/vector_types.h"

#include <pthread.h>
#include <stddef.h>
#include <time.h>

namespace tkjit::sim {

// All blocks of a cooperative launch must run at the same time. Each needs an OS thread, and a block's stacks.
inline constexpr unsigned most_cooperative_blocks = 512;
// The most blocks that may have begun without having ended, in case they wait for each other: as many as fill a B200.
inline constexpr int most_begun_blocks = 148;
inline constexpr int max_helpers = most_cooperative_blocks - 1;

inline long long now_ns() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ll + now.tv_nsec;
}

/// Sleeps, to free the CPU, because many OS threads may be waiting for one that is working.
inline void rest() {
    constexpr timespec nap{0, 1'000'000};
    nanosleep(&nap, nullptr);
}

inline unsigned volume_of(uint3 dims) { return dims.x * dims.y * dims.z; }
inline bool is_several(uint3 dims) { return volume_of(dims) != 1; }

struct Grid;  // cooperative.h

/// In the checked builds, one block runs at a time, until it waits for others. The blocks take turns explicitly: with
/// only a mutex, a block that releases it would usually be the one to get it again.
#ifdef TKJIT_SIM_CHECKED
inline constexpr bool one_at_a_time = true;
#else
inline constexpr bool one_at_a_time = false;
#endif

/// One run of a grid, shared by the OS threads that work on it.
struct Launch {
    void (*run)(const void* body);
    const void* body;
    uint3 grid, block;
    size_t dynamic_shared_bytes;
    bool cooperative;  // all blocks run at the same time
    uint3 cluster;     // the dimensions of a cluster
    unsigned long long block_count;  // or the number of clusters
    unsigned long long next_block;  // taken with an atomic addition
    int failed;                     // set once, by the thread that writes error_text
    char* error_text;
    int error_code;  // 0: cudaErrorLaunchFailure, or cudaErrorInvalidConfiguration if the launch has not begun
    pthread_t caller;
    Helpers* helpers;
    unsigned ticks;                  // of the caller
    unsigned ticks_at_interruption;  // `ticks` at the last Ctrl-C
    int has_said_where;              // set once a second Ctrl-C has printed the kernel's line
    int running;                    // blocks that have begun and not ended
    int lacks_room;                 // there was no memory for another block
    int in_vain;                    // how many running blocks have only waited in loops for a long time
    long long last_change_ns;       // when a block counted by in_vain last made progress, or any block ended meanwhile
    Grid* grid_barrier;             // of a cooperative launch
    long long last_device_turn_ns;  // about when a thread last waited for another device; 0 if none has
    int waits_forever;              // the other devices are waiting as well, or have ended, so the wait will not end
};

/// The OS threads other than the caller. Only the caller changes this object; signal handlers read it in every thread.
struct Helpers {
    long long start_ns;
    long long asked_ns;  // when the caller last checked whether it is interrupted
    bool considered;
    int count;
    int joined;
    pthread_t threads[max_helpers];  // while a thread is being created, its place holds the caller
};

inline int blocks_of_cluster(const Launch& launch) { return static_cast<int>(volume_of(launch.cluster)); }

inline constexpr long long patience_ns = 5'000'000'000;  // while blocks do nothing but wait

/// Returns whether an OS thread is going to begin another block. On a busy machine, this may take a long time.
inline bool more_will_begin(const Launch& launch) {
    return !launch.cooperative && !one_at_a_time &&
           !__atomic_load_n(&launch.lacks_room, __ATOMIC_RELAXED) &&
           __atomic_load_n(&launch.next_block, __ATOMIC_RELAXED) < launch.block_count &&
           __atomic_load_n(&launch.running, __ATOMIC_RELAXED) + blocks_of_cluster(launch) <= most_begun_blocks;
}

/// Returns whether no running block can make progress: each has only waited for a long time and has had a turn since
/// anything else happened, and no other block will begin.
inline bool all_in_vain(const Launch& launch) {
    const int in_vain = __atomic_load_n(&launch.in_vain, __ATOMIC_RELAXED);
    return in_vain > 0 && in_vain >= __atomic_load_n(&launch.running, __ATOMIC_RELAXED) && !more_will_begin(launch) &&
           now_ns() - __atomic_load_n(&launch.last_change_ns, __ATOMIC_RELAXED) > patience_ns;
}

}  // namespace tkjit::sim
