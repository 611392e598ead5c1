// The state of a block. An OS thread runs one block at a time; others may be parked on it.
//
// The structs are plain and start as zeros, because they are placed in mapped memory: they are large, but only the
// pages that are used take up memory.
#pragma once

#include "language.h"
#include "site.h"
#include "vector_types.h"

#include <stddef.h>
#include <stdint.h>

namespace tkjit::sim {

inline constexpr unsigned max_threads_per_block = 1024;
inline constexpr unsigned warp_threads = 32;
inline constexpr unsigned max_warps_per_block = max_threads_per_block / warp_threads;
inline constexpr unsigned warpgroup_threads = 128;
inline constexpr unsigned max_warpgroups_per_block = max_threads_per_block / warpgroup_threads;
inline constexpr unsigned most_static_slots = 512;
inline constexpr unsigned named_barriers = 16;  // PTX ISA, `bar`: barriers 0 to 15; __syncthreads is barrier 0

/// The operation that a thread is waiting in. The names in runtime/fault.h are in the same order.
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
    elect,
    mma,
    ldmatrix,
    stmatrix,
    activemask,
    spin,
    grid_sync,
    mbarrier,
    device_barrier,
    wgmma,
    setmaxnreg,
    cluster_barrier,
    tensor_memory,
};

const char* operation_name(Operation operation);

struct Block;
struct Launch;
struct Helpers;
class ParkedBlocks;
struct PendingCopy;
struct BulkCopies;
struct TensorMemory;

/// The asynchronous copies that a thread has issued and not yet waited for, oldest first (see copy_queue.h).
struct CopyQueue {
    PendingCopy* copies;
    unsigned count, capacity;
    unsigned committed_groups;
};

/// The guard below a stack.
enum class Guard : unsigned char { none, mapping, mark };

/// A fiber's stack (see runtime/fiber.h).
struct Stack {
    char* lowest;
    Guard guard;
    // The distance from the stack's top to the first frame. If it were the same for all stacks, the hot frames of all
    // fibers would fall into the same few cache sets.
    size_t stagger;
    Stack* next_free;
    unsigned mapped_with_it;  // the number of stacks in its mapping if it is the first of them, else 0
};

/// The point at which a suspended fiber will continue. Only runtime/fiber.h uses the pointer.
struct Context {
    void* saved;
#ifdef TKJIT_SIM_MEMORY
    void* fake_stack;  // AddressSanitizer's fake stack of the suspended fiber
#endif
};

/// One CUDA thread. A thread that never waits uses only the first cache line.
struct alignas(64) Thread {
    uint3 index;
    unsigned linear;
    Block* block;
    Stack* stack;
    CopyQueue copies;
    unsigned cluster_ticket;  // 1 + the phase of the cluster's barrier at which it has arrived without waiting; else 0
    Operation waiting_in;
    bool exited;
    bool needs_whole_group;  // its next collective needs all lanes of the mask (see warp.h)
    Thread* next;    // the next one in the ready queue or in a barrier's list
    void* operands;  // its operands in a collective of its warp; on its own stack
    Context context;
    Site site;
    unsigned long long polled_at;  // the block's progress when it last polled without success
};

/// A barrier of the block: __syncthreads or a named one.
struct Barrier {
    Thread *first, *last;  // the waiting threads
    unsigned arrived;
    unsigned expected;  // 0: every thread that has not exited
    unsigned true_predicates;
    unsigned result;  // true_predicates of the last completed phase
    Operation operation;
    bool is_mixed;  // threads of this phase came from several places
    Site site;      // of the first thread
};

/// A warp operation that some lanes of its mask have reached.
struct Collective {
    unsigned mask;
    unsigned arrived;  // lanes
    Operation operation;
    bool needs_all;         // fails if a lane of the mask exits
    unsigned char finisher;  // 1 + the lane that was woken by an exit to compute for all, or 0
};

struct Warp {
    unsigned alive;    // lanes that exist and have not exited
    unsigned waiting;  // lanes inside a collective
    unsigned in_flight;  // collectives that some lanes have reached
    unsigned latest;     // the collective that was reached most recently
    // Indexed by the lane that was first to reach the collective; that lane waits in no other collective. Masks may
    // overlap: the odd lanes may wait for the even ones at a __syncwarp() while the even lanes shuffle among
    // themselves.
    Collective collectives[warp_threads];
};

/// Records which lanes of a warp have done something that a device does once for the warp (see runtime/mbarrier.h).
struct WarpOnce {
    uintptr_t what;
    unsigned warp, lanes;
    Site site;
};

/// A warpgroup: four warps that multiply together (see runtime/wgmma.h).
struct Warpgroup {
    unsigned arrived;
    Thread *first, *last;  // the waiting threads
};

inline constexpr unsigned most_cluster_blocks = 16;

/// The blocks of a cluster, which take turns on one OS thread, and their barrier (see detail/cluster.h).
struct Cluster {
    uint3 dims;
    unsigned count;
    Block* blocks[most_cluster_blocks];
    unsigned begun, exited_threads;  // the latter only if there are several blocks
    unsigned ended;           // blocks, as bits by rank
    unsigned arrived, phase;  // of the barrier
    Thread* first;            // of those that wait at the barrier, most recent first
    bool is_stuck;            // no block can continue
};

/// What the block's warps have asked for with setmaxnreg (see runtime/registers.h).
struct RegisterCounts {
    unsigned short counts[max_warps_per_block];  // per thread; 0 if the warp has not asked
    Site sites[max_warps_per_block];             // where it asked last
    bool has_changed;
};

/// A fault that the processor raised (see runtime/hardware_faults.h).
struct HardwareFault {
    int number, code;  // of the signal; 0 if there is none
    uintptr_t instruction, address;
    bool is_write, is_call, is_undefined, used_up_stack;
};

struct Block {
    Launch* launch;
    Helpers* helpers;  // null if this OS thread is itself a helper
    unsigned thread_count;
    unsigned started;
    unsigned exited;
    unsigned events_until_tick;
    unsigned vain_atomics;  // see atomics.h
    bool others_may_run;    // other blocks can take its OS thread while it polls
    unsigned vain_spins;    // see note_spin in runtime/launch.h
    unsigned long long device_turns;  // how often its threads polled for other devices
    unsigned long long spin_progress;
    long long spin_start_ns;
    bool spins_in_vain;
    // Grows whenever a thread may have become able to run. If a poller finds it unchanged, there is no point in polling
    // again.
    unsigned long long progress;
    uint3 numbered_for;  // the dimensions for which its threads have their indices
    Thread *ready_first, *ready_last;
    Thread* mbarrier_waiters;  // the threads that wait for an mbarrier, most recent first
    Stack* free_stacks;
    Stack* starting_stack;
    Context host;      // the OS thread's own stack, which continues when the block is done
    Context starting;  // of a fiber that has not run yet
    char* window;          // its shared memory (see window.h); null until it first runs
    char* dynamic_shared;  // within the window
    unsigned window_used;
    unsigned static_offsets[most_static_slots];  // in the window; 0 if the variable has no place yet
    void* matrices;  // buffer for a tensor core's operands (see runtime/wgmma.h and runtime/tcgen05.h)
    TensorMemory* tensor_memory;  // null until its first allocation (see runtime/tensor_memory.h)
    BulkCopies* bulk_copies;  // its pending bulk copies; null until the first (see bulk_copies.h)
    void* race_state;         // what each thread knows of the others' accesses (see check/race.h)
    Thread* visitor;  // a thread that stopped so that the OS thread's stack can check for an interruption
    ParkedBlocks* beside;     // the blocks on its OS thread (see parked_blocks.h); null if it has one for itself
    Thread* parked;           // the thread that continues when the block gets the OS thread back
    long long turn_start_ns;  // when it got the OS thread, if others are parked there
    unsigned spins_at_turn;   // vain_spins when it last gave up the OS thread
    bool turn_in_vain;        // nothing happened during its last turn
    Block* next_parked;
    char* thread_locals;      // of the OS thread, as the block left them
    size_t thread_local_bytes;
    int error_code;   // the cudaError_t of its fault, if it is not cudaErrorLaunchFailure
    bool abandoned;  // after a fault, here or in another block: its fibers were left where they stopped
    unsigned stack_count, mapped_stacks;
    bool lacks_guards;  // some of its stacks have no guard
    Barrier barriers[named_barriers];
    Warp warps[max_warps_per_block];
    Warpgroup warpgroups[max_warpgroups_per_block];
    WarpOnce done_once[32];
    bool has_done_once;
    RegisterCounts registers;
    Cluster* cluster;  // never null while the block runs
    Cluster alone;     // its cluster, if it is the only block there
    unsigned cluster_rank;
    bool polls_cluster;  // it gave up its turn while its threads polled
    Stack stacks[max_threads_per_block];
    Thread threads[max_threads_per_block];
    HardwareFault fault;
    const void* thrown_at;  // where the kernel last threw an exception
    char exception[512];    // the text of its exception
    char signal_stack[64 << 10];  // for a helper that runs the block
};

/// Counts the threads of the row that have ended, and begins the one that runs (runtime/scheduler.h).
void settle_row();

/// A pointer to the running CUDA thread, null on an OS thread that runs no block.
///
/// Most threads of a simple kernel never wait, and call nothing of the simulator. To let them cost little, a fiber begins
/// a *row* of them at once, whose indices differ in x, and counts only in threadIdx.x. Whoever asks for the running thread
/// settles the row first, so that nobody sees threads that are not accounted for, and the rest of the row begins one by one.
class CurrentThread {
  public:
    Thread* operator->() const { return settled(); }
    Thread& operator*() const { return *settled(); }
    operator Thread*() const { return settled(); }
    explicit operator bool() const { return thread_ != nullptr; }
    bool operator==(decltype(nullptr)) const { return thread_ == nullptr; }
    CurrentThread& operator=(Thread* thread) {
        thread_ = thread;
        left_ = 0;
        in_row_ = false;
        return *this;
    }

    /// Lets up to `more` threads follow the running one in a row.
    void begin_row(unsigned more) {
        left_ = more;
        in_row_ = more != 0;
    }
    /// Begins the row's next thread, once the running one has ended. Returns false if there is none.
    bool next_in_row() {
        if (left_ == 0) return false;
        left_--;
        threadIdx.x++;
        asm volatile("" ::: "memory");  // a signal handler reads threadIdx.x, so it must not stay in a register
        return true;
    }
    /// Returns the first thread of the row, or else the running one. It is for signal handlers, after which the row
    /// continues, so they must not settle it.
    const Thread* first_of_row() const { return thread_; }

  private:
    friend void settle_row();
    Thread* settled() const {
#ifndef TKJIT_SIM_CHECKED  // there each thread begins on its own
        if (__builtin_expect(in_row_, false)) settle_row();
#endif
        return thread_;
    }

    Thread* thread_ = nullptr;
    unsigned left_ = 0;  // threads of the row that have not begun
    bool in_row_ = false;
};
extern TKJIT_SIM_REGISTER CurrentThread current_thread;
extern TKJIT_SIM_REGISTER Block* current_block;  // null on an OS thread that runs no block

inline unsigned lane_of(const Thread& thread) { return thread.linear % warp_threads; }
inline Warp& warp_of(const Thread& thread) { return thread.block->warps[thread.linear / warp_threads]; }

}  // namespace tkjit::sim
