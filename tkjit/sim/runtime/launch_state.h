// Shared state of the OS threads of one launch.
#pragma once

#include "../detail/block.h"
#include "../detail/vector_types.h"

#include <pthread.h>
#include <stddef.h>

namespace tkjit::sim {

// What "all blocks fit" means here: OS threads, each with the stacks of a block.
inline constexpr unsigned most_cooperative_blocks = 512;
// A grid that fills an H100 and waits for itself: its blocks are begun and not ended at once, if it turns out to wait.
inline constexpr int most_begun_blocks = 132;
inline constexpr int max_helpers = most_cooperative_blocks - 1;

struct Grid;  // grid.h

/// In the checked builds one block runs at a time, until it waits for others. They take turns: with a mutex alone, the one
/// that gives it up would most often get it again.
#ifdef TKJIT_SIM_CHECKED
inline constexpr bool one_at_a_time = true;
#else
inline constexpr bool one_at_a_time = false;
#endif

/// One run of a grid, shared by the OS threads that work on it.
struct Launch {
    void (*run_thread)(const void* body);
    const void* body;
    uint3 grid, block;
    size_t dynamic_shared_bytes;
    bool cooperative;  // all blocks run at once
    unsigned long long block_count;
    unsigned long long next_block;  // taken with an atomic addition
    int failed;                     // set once, by whoever writes error_text
    char* error_text;
    int error_code;  // 0: cudaErrorLaunchFailure, or of a launch that has not begun, cudaErrorInvalidConfiguration
    pthread_t caller;
    Helpers* helpers;
    unsigned ticks;                  // of the caller
    unsigned ticks_at_interruption;  // the last one that is not yet asked about
    int has_said_where;              // what a second Ctrl-C found
    int running;                    // blocks that have begun and not ended
    int lacks_room;                 // there was no memory for another one
    int in_vain;                    // of those that run, which have only waited in loops for long
    long long last_change_ns;       // when one of these went on, or a block ended while there were some
    Grid* grid_barrier;             // of a cooperative launch
    long long last_device_turn_ns;  // about when a thread waited for another device last; 0 if none has
    int waits_forever;              // for devices that wait as well, or have ended
};

/// The OS threads beside the caller. Only the caller changes it; handlers of signals read it in every thread.
struct Helpers {
    long long start_ns;
    long long asked_ns;  // when the caller last asked whether it is interrupted
    bool considered;
    int count;
    int joined;
    pthread_t threads[max_helpers];  // the caller stands for one that is being created
};

}  // namespace tkjit::sim
