// The OS threads of a launch. Each begins new blocks and continues those that wait.
//
// No pool of threads outlives a launch, because each of the many shared objects in a process has its own copy of this
// code, and because a pool would not survive fork(). The caller starts alone. Helpers are created once the launch has
// run for as long as creating them takes, so a small launch never pays for them, and a large one loses nothing.
#pragma once

#include "../detail/block.h"
#include "../detail/vector_types.h"
#include "blocks.h"
#include "cluster.h"
#include "fault.h"
#include "cooperative.h"
#include "launch_state.h"
#include "parked_blocks.h"
#include "schedule.h"
#include "scheduler.h"
#include "signals.h"

#include <tkjit/sim_verdict.h>

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include <utility>

/// Called from time to time by the thread that launched, on its own stack. Set by the code that opens the launcher.
extern "C" {
__attribute__((visibility("default"))) tkjit::sim::Judge tkjit_sim_judge = nullptr;
}

namespace tkjit::sim {

inline constexpr unsigned events_per_tick = 64;
inline constexpr unsigned events_per_early_tick = 8;  // while helpers may still be needed, even for a few long threads

inline int requested_workers = 0;

void set_workers(int workers) { __atomic_store_n(&requested_workers, workers, __ATOMIC_RELAXED); }

inline int worker_limit() {
    const int requested = __atomic_load_n(&requested_workers, __ATOMIC_RELAXED);
    if (requested > 0) return requested;
    cpu_set_t available;
    return sched_getaffinity(0, sizeof(available), &available) == 0 ? CPU_COUNT(&available) : 1;
}

void note_change(Launch& launch) { __atomic_store_n(&launch.last_change_ns, now_ns(), __ATOMIC_RELAXED); }

/// Gives each thread of a block its index, unless the threads have it from an earlier launch.
inline void number_threads(Block& block, uint3 dims) {
    if (memcmp(&block.numbered_for, &dims, sizeof(dims)) == 0) return;
    block.numbered_for = dims;
    unsigned linear = 0;
    for (unsigned z = 0; z < dims.z; z++) {
        for (unsigned y = 0; y < dims.y; y++) {
            for (unsigned x = 0; x < dims.x; x++, linear++) {
                Thread& thread = block.threads[linear];
                thread.index = {x, y, z};
                thread.linear = linear;
                thread.block = &block;
            }
        }
    }
}

/// Returns a block for a launch that has not begun, or null if there is no memory.
inline Block* prepare_block(Launch& launch, Helpers* helpers, ParkedBlocks& parked) {
    Block* const block = take_idle_block();
    if (block == nullptr || !reserve_window(*block, launch.dynamic_shared_bytes)) {
        put_idle_block(block);
        return nullptr;
    }
    block->launch = &launch;
    block->helpers = helpers;
    block->beside = one_at_a_time || launch.grid_barrier || is_several(launch.cluster) ? nullptr : &parked;
    block->thread_count = launch.block.x * launch.block.y * launch.block.z;
    number_threads(*block, launch.block);
    block->cluster = &block->alone;
    block->turn_start_ns = 0;
    block->events_until_tick = helpers && !helpers->considered ? events_per_early_tick : events_per_tick;
    return block;
}

inline void put_away(Block* block) {
    if (block) block->launch = nullptr;
    put_idle_block(block);
}

/// Counts a block, or the blocks of a cluster, as begun, or returns false if too many are running. An OS thread without
/// other blocks may always begin one.
inline bool take_place(Launch& launch, bool has_others) {
    const int blocks = blocks_of_cluster(launch);
    int running = __atomic_load_n(&launch.running, __ATOMIC_RELAXED);
    do {
        if (has_others && running + blocks > most_begun_blocks) return false;
    } while (!__atomic_compare_exchange_n(&launch.running, &running, running + blocks, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return true;
}

inline void give_place_back(Launch& launch) {
    __atomic_fetch_sub(&launch.running, blocks_of_cluster(launch), __ATOMIC_RELAXED);
    if (__atomic_load_n(&launch.in_vain, __ATOMIC_RELAXED)) note_change(launch);
}

/// Takes the number of the next block or cluster. Returns false if none may begin on this OS thread.
inline bool take_number(Launch& launch, bool has_others, unsigned long long& number) {
    if (!take_place(launch, has_others)) return false;
    number = __atomic_fetch_add(&launch.next_block, 1ull, __ATOMIC_RELAXED);
    if (number < launch.block_count) return true;
    give_place_back(launch);
    return false;
}

/// Runs the grid's blocks on the calling OS thread until none are left or one has failed. The caller keeps `first`.
inline void run_blocks(Launch& launch, Helpers* helpers, ParkedBlocks& parked, Block& first) {
    const BorrowedSignalStack signal_stack(helpers ? nullptr : first.signal_stack);
    Block* next = &first;  // the next to begin
    bool begins = true;    // new blocks alternate with those that wait
    while (!launch_failed(launch)) {
        Block* block = nullptr;
        bool has_ended = false;
        if (parked.is_empty() || (begins && parked.has_room())) {
            if (next == nullptr) next = prepare_block(launch, helpers, parked);
            if (next == nullptr) __atomic_store_n(&launch.lacks_room, 1, __ATOMIC_RELAXED);
            unsigned long long number;
            if (next && take_number(launch, !parked.is_empty(), number)) {
                block = std::exchange(next, nullptr);
                block->turn_start_ns = parked.is_empty() ? 0 : now_ns();
                has_ended = run_block(*block, schedule::block_at(number));
            }
        }
        begins = !begins;
        if (block == nullptr) {
            if (parked.is_empty()) break;
            block = &parked.take();
            block->turn_start_ns = now_ns();
            has_ended = run_on(*block);
        }
        if (!has_ended) {
            parked.put(*block);
            if (parked.have_all_waited(block->turn_in_vain) && !parked.has_room()) rest();
            continue;
        }
        set_in_vain(*block, false);
        give_place_back(launch);
        if (next == nullptr || block == &first) std::swap(block, next);  // once `first` has ended, it is `next`
        if (block != &first) put_away(block);
        if (launch.grid_barrier) break;  // each block has its own OS thread
    }
    while (!parked.is_empty()) {  // the launch has failed
        Block& block = parked.drop();
        set_in_vain(block, false);
        reset_after_fault(block);
        if (&block != &first) put_away(&block);
    }
    if (next != &first) put_away(next);
}

/// The clusters that have begun on an OS thread. While one polls, the others continue, and a new one begins.
class ClustersOfThread {
  public:
    ClustersOfThread(Launch& launch, Helpers* helpers, ParkedBlocks& parked)
        : launch_(launch), helpers_(helpers), parked_(parked), size_(volume_of(launch.cluster)) {}
    ClustersOfThread(const ClustersOfThread&) = delete;
    ClustersOfThread& operator=(const ClustersOfThread&) = delete;
    ~ClustersOfThread() {
        while (count_) end(0);
        for (Block* block : spare_) put_away(block);
    }

    void run() {
        constexpr unsigned passes_before_rest = 64;
        unsigned idle_passes = 0;
        while (!launch_failed(launch_) && (begin() || count_)) {
            const unsigned long long before = steps_;
            for (unsigned i = 0; i < count_;) {
                if (runs_[i]->run()) {
                    end(i);
                } else {
                    i++;
                }
            }
            idle_passes = steps_ == before ? idle_passes + 1 : 0;
            if (!one_at_a_time && idle_passes > passes_before_rest) rest();
        }
    }

  private:
    /// Returns whether there is another cluster, and it is begun.
    bool begin() {
        if (count_ && one_at_a_time) return false;  // the checker forgets the barriers of one cluster when the next begins
        if (__atomic_load_n(&launch_.next_block, __ATOMIC_RELAXED) >= launch_.block_count || !prepare()) return false;
        unsigned long long number;
        if (!take_number(launch_, count_ != 0, number)) return false;
        runs_[count_++] = new ClusterRun(launch_, spare_, schedule::block_at(number), steps_);
        memset(spare_, 0, sizeof(spare_));
        return true;
    }

    /// Prepares the blocks of another cluster. It is a fault if there is not even memory for one.
    bool prepare() {
        for (unsigned i = 0; i < size_; i++) {
            if (spare_[i] == nullptr) spare_[i] = prepare_block(launch_, helpers_, parked_);
            if (spare_[i]) continue;
            __atomic_store_n(&launch_.lacks_room, 1, __ATOMIC_RELAXED);
            if (count_ == 0 && claim_fault(launch_)) {
                ErrorText(launch_.error_text).append("out of memory for the blocks of a cluster");
            }
            return false;
        }
        return true;
    }

    void end(unsigned i) {
        ClusterRun* const run = runs_[i];
        runs_[i] = runs_[--count_];
        run->end();
        for (unsigned rank = 0; rank < size_; rank++) {
            Block* const block = run->blocks()[rank];
            if (block->tensor_memory) clear_tensor_memory(*block);  // one of a pair may have had memory before it began
            spare_[rank] ? put_away(block) : void(spare_[rank] = block);
        }
        delete run;
        give_place_back(launch_);
    }

    Launch& launch_;
    Helpers* const helpers_;
    ParkedBlocks& parked_;
    const unsigned size_;
    ClusterRun* runs_[most_begun_blocks];
    unsigned count_ = 0;
    unsigned long long steps_ = 0;
    Block* spare_[most_cluster_blocks] = {};
};

/// Runs the grid's clusters on the calling OS thread until none are left or one has failed. The caller keeps `first`, of
/// which only the stack for signals is used.
inline void run_clusters(Launch& launch, Helpers* helpers, ParkedBlocks& parked, Block& first) {
    const BorrowedSignalStack signal_stack(helpers ? nullptr : first.signal_stack);
    ClustersOfThread(launch, helpers, parked).run();
}

/// Makes the calling OS thread work on a launch. Only the caller's OS thread passes `helpers`.
inline void work(Launch& launch, Helpers* helpers) {
    ParkedBlocks parked(launch);
    Block* const block = prepare_block(launch, helpers, parked);
    if (block == nullptr) {
        if (claim_fault(launch)) ErrorText(launch.error_text).append("out of memory for the state of a block");
        return;
    }
    if (launch.grid_barrier) begin_block_of_grid(launch);
    blockDim = launch.block;
    gridDim = launch.grid;
    is_several(launch.cluster) ? run_clusters(launch, helpers, parked, *block) : run_blocks(launch, helpers, parked, *block);
    current_block = nullptr;
    put_away(block);
    if (launch.grid_barrier) end_block_of_grid(*launch.grid_barrier);
}

inline void* help(void* launch) {
    work(*static_cast<Launch*>(launch), nullptr);
    return nullptr;
}

/// While this exists, any threads that the calling thread creates are not interrupted by signals from outside.
/// Otherwise one of the program's handlers, such as the Go runtime's, would run on a fiber's stack. Faults are not
/// blocked. If the launch has a judge, SIGINT is not blocked either, because it ends the launch.
class SignalsBlocked {
  public:
    SignalsBlocked() {
        sigset_t outside;
        sigfillset(&outside);
        const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS};
        for (const int fault : faults) sigdelset(&outside, fault);
        if (tkjit_sim_judge) sigdelset(&outside, SIGINT);
        pthread_sigmask(SIG_BLOCK, &outside, &before_);
    }
    ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    SignalsBlocked(const SignalsBlocked&) = delete;
    SignalsBlocked& operator=(const SignalsBlocked&) = delete;

  private:
    sigset_t before_;
};

/// Creates OS threads. If the system refuses to create one, the other threads do its work.
inline void create_threads(Launch& launch, Helpers& helpers, int wanted) {
    helpers.considered = true;
    const SignalsBlocked blocked;
    while (helpers.count < wanted) {
        // Counted first, because a signal may stop the thread before pthread_create returns, though not before its id
        // is stored.
        pthread_t& thread = helpers.threads[helpers.count];
        thread = launch.caller;
        __atomic_store_n(&helpers.count, helpers.count + 1, __ATOMIC_RELEASE);
        if (pthread_create(&thread, nullptr, help, &launch) != 0) {
            __atomic_store_n(&helpers.count, helpers.count - 1, __ATOMIC_RELEASE);
            return;
        }
    }
}

/// Creates as many OS threads as there are CPUs and blocks for them.
inline void create_helpers(Launch& launch, Helpers& helpers) {
    const unsigned long long taken = __atomic_load_n(&launch.next_block, __ATOMIC_RELAXED);
    const unsigned long long left = taken < launch.block_count ? launch.block_count - taken : 0;
    int wanted = worker_limit() - 1;
    if (wanted > max_helpers) wanted = max_helpers;
    if (static_cast<unsigned long long>(wanted) > left) wanted = static_cast<int>(left);
    create_threads(launch, helpers, wanted);
}

}  // namespace tkjit::sim
