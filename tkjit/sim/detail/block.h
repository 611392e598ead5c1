// The state of the one block that an OS thread runs at a time.
//
// Plain structs whose initial state is all zeros: they are mapped memory, large, and only their used pages exist.
#pragma once

namespace tkjit::sim {

inline constexpr unsigned max_threads_per_block = 1024;
inline constexpr unsigned warp_threads = 32;
inline constexpr unsigned max_warps_per_block = max_threads_per_block / warp_threads;
inline constexpr unsigned named_barriers = 16;  // PTX ISA, `bar`: barriers 0 to 15; __syncthreads is barrier 0

/// What a thread waits in. The order is that of `operation_names`.
enum class Operation : unsigned char {
    none,
    syncthreads,
    syncthreads_count,
    syncthreads_and,
    syncthreads_or,
    named_barrier,
    syncwarp,
    shuffle,
    shuffle_up,
    shuffle_down,
    shuffle_xor,
    ballot,
    any,
    all,
    match_any,
    match_all,
    reduce_add,
    reduce_min,
    reduce_max,
    reduce_and,
    reduce_or,
    reduce_xor,
    mma,
    ldmatrix,
    poll,
    activemask,
    spin,
};

inline const char* operation_name(Operation operation) {
    static const char* const operation_names[] = {
        "nothing",
        "__syncthreads",
        "__syncthreads_count",
        "__syncthreads_and",
        "__syncthreads_or",
        "a named barrier",
        "__syncwarp",
        "__shfl_sync",
        "__shfl_up_sync",
        "__shfl_down_sync",
        "__shfl_xor_sync",
        "__ballot_sync",
        "__any_sync",
        "__all_sync",
        "__match_any_sync",
        "__match_all_sync",
        "__reduce_add_sync",
        "__reduce_min_sync",
        "__reduce_max_sync",
        "__reduce_and_sync",
        "__reduce_or_sync",
        "__reduce_xor_sync",
        "mma",
        "ldmatrix",
        "a polled condition",
        "__activemask",
        "a loop of atomics or __nanosleep",
    };
    return operation_names[static_cast<int>(operation)];
}

struct Block;
struct Launch;
struct Helpers;
struct PendingCopy;

/// The asynchronous copies that a thread has issued and not yet waited for, oldest first (see copy_queue.h).
struct CopyQueue {
    PendingCopy* copies;
    unsigned count, capacity;
    unsigned committed_groups;
};

/// One CUDA thread.
struct alignas(64) Thread {
    uint3 index;
    unsigned linear;
    Block* block;
    Thread* next;    // behind it in the ready queue or in a barrier's list
    void* operands;  // what it brought to a collective of its warp; lies on its own stack
    Context context;
    Stack* stack;
    Site site;
    Operation waiting_in;
    bool exited;
    CopyQueue copies;
};

/// A barrier of the block: __syncthreads or a named one.
struct Barrier {
    Thread *first, *last;  // the threads that wait
    unsigned arrived;
    unsigned expected;  // 0: every thread that has not exited
    unsigned true_predicates;
    unsigned result;  // true_predicates of the phase that completed last
    Operation operation;
};

/// A warp operation that some lanes of its mask have reached.
struct Collective {
    unsigned mask;
    unsigned arrived;  // lanes
    Operation operation;
};

struct Warp {
    unsigned alive;    // lanes that exist and have not exited
    unsigned waiting;  // lanes inside a collective
    // By the lowest lane of the mask: two collectives in flight cannot share it unless the source is wrong.
    Collective collectives[warp_threads];
};

struct Block {
    Launch* launch;
    Helpers* helpers;  // null where this OS thread is a helper itself
    unsigned thread_count;
    unsigned started;
    unsigned exited;
    unsigned events_until_tick;
    unsigned vain_atomics;  // see atomics.h
    // Grows whenever a thread could have become able to run; a poller that sees it unchanged polls in vain.
    unsigned long long progress;
    uint3 next_index;  // of the next thread to start
    Thread *ready_first, *ready_last;
    Stack* free_stacks;
    Stack* starting_stack;
    Context host;      // the OS thread's own stack, which goes on when the block is done
    Context starting;  // of a fiber that has not run yet
    char* dynamic_shared;
    size_t dynamic_shared_capacity;
    bool abandoned;  // a fault, here or in another block: fibers were left where they stood
    Block* next_free;
    unsigned stack_count;
    Barrier barriers[named_barriers];
    Warp warps[max_warps_per_block];
    Stack stacks[max_threads_per_block];
    Thread threads[max_threads_per_block];
};

// Null on an OS thread that runs no block. Like every thread_local here: a __thread with constant initialisation, so
// that no use goes through an initialisation wrapper.
inline thread_local Thread* current_thread = nullptr;
inline thread_local Block* current_block = nullptr;

inline unsigned lane_of(const Thread& thread) { return thread.linear % warp_threads; }
inline Warp& warp_of(const Thread& thread) { return thread.block->warps[thread.linear / warp_threads]; }

}  // namespace tkjit::sim
