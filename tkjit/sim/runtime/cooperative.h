// Cooperative launches: each block gets its own OS thread, because all blocks run at the same time, and they meet at a
// barrier.
#pragma once

#include "../check/race.h"
#include "../detail/block.h"
#include "../detail/fault.h"
#include "../detail/site.h"
#include "../detail/vector_types.h"
#include "fault.h"
#include "launch_state.h"
#include "scheduler.h"

#include <pthread.h>
#include <time.h>

namespace tkjit::sim {

/// The blocks of a cooperative launch.
struct Grid {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    unsigned blocks;
    unsigned begun;
    unsigned waiting;
    unsigned ended;
    unsigned phase;
    unsigned next_turn, turn;  // in the checked builds: whose turn it is to run
};

inline void take_turn(Grid& grid) {
    const unsigned own = grid.next_turn++;
    while (grid.turn != own) pthread_cond_wait(&grid.changed, &grid.mutex);
}

inline void end_turn(Grid& grid) {
    grid.turn++;
    pthread_cond_broadcast(&grid.changed);
}

/// An OS thread's special registers. In the checked builds, another OS thread may change them while this one waits.
struct Registers {
    Thread* thread = current_thread;
    Block* block = current_block;
    uint3 thread_index = threadIdx, block_index = blockIdx;

    void restore() const {
        current_thread = thread;
        current_block = block;
        threadIdx = thread_index;
        blockIdx = block_index;
    }
};

/// Waits for a change, but only briefly, because a failure in another block does not signal `changed`.
inline void wait_for_change(Grid& grid) {
    timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 20'000'000;
    if (until.tv_nsec >= 1'000'000'000) until.tv_sec++, until.tv_nsec -= 1'000'000'000;
    pthread_cond_timedwait(&grid.changed, &grid.mutex, &until);
}

/// Called by the last thread of a block to arrive, while its other threads wait.
void wait_for_grid(Block& block, Site site) {
    Grid& grid = *block.launch->grid_barrier;
    const Registers registers;
    pthread_mutex_lock(&grid.mutex);
    const unsigned phase = grid.phase;
    race::arrive(&grid);
    if (++grid.waiting == grid.blocks) {
        grid.waiting = 0;
        grid.phase++;
        race::complete(&grid);
        pthread_cond_broadcast(&grid.changed);
    }
    if (one_at_a_time) end_turn(grid);
    if (!one_at_a_time) set_in_vain(block, true);  // so that the blocks notice when all of them are waiting
    bool in_vain = false;
    while (grid.phase == phase && !launch_failed(*block.launch) && !in_vain) {
        in_vain = grid.ended > 0 && grid.waiting + grid.ended == grid.blocks;
        if (!in_vain) wait_for_change(grid);
        if (!one_at_a_time && block.helpers) {  // only the caller's block can be interrupted
            pthread_mutex_unlock(&grid.mutex);
            visit_host(block);
            pthread_mutex_lock(&grid.mutex);
        }
    }
    if (one_at_a_time) take_turn(grid);
    pthread_mutex_unlock(&grid.mutex);
    registers.restore();
    set_in_vain(block, false);
    race::leave(&grid);
    race::arrive(&block.barriers[0]);  // passes what the grid knows to the block's other threads, which wait there
    if (in_vain) fail(site, "deadlock: a sync of the grid waits for blocks that have exited");
    if (launch_failed(*block.launch)) abandon_block(block);
}

/// Called when a thread waits in a loop, because in the checked builds other blocks must get their turn.
inline void pass_on(Block& block) {
    Grid* grid = block.launch->grid_barrier;
    if (!one_at_a_time || grid == nullptr) return;
    const Registers registers;
    pthread_mutex_lock(&grid->mutex);
    end_turn(*grid);
    take_turn(*grid);
    pthread_mutex_unlock(&grid->mutex);
    registers.restore();
}

/// In the checked builds, no block runs before all OS threads have arrived. Otherwise blocks that have not had a turn
/// yet would look as if they would never end the other blocks' waits.
inline void begin_block_of_grid(Launch& launch) {
    if (!one_at_a_time) return;
    Grid& grid = *launch.grid_barrier;
    pthread_mutex_lock(&grid.mutex);
    grid.begun++;
    pthread_cond_broadcast(&grid.changed);
    // the launch fails if a block gets no thread
    while (grid.begun < grid.blocks && !launch_failed(launch)) wait_for_change(grid);
    take_turn(grid);
    pthread_mutex_unlock(&grid.mutex);
}

inline void end_block_of_grid(Grid& grid) {
    pthread_mutex_lock(&grid.mutex);
    grid.ended++;
    if (one_at_a_time) end_turn(grid);
    pthread_cond_broadcast(&grid.changed);
    pthread_mutex_unlock(&grid.mutex);
}

}  // namespace tkjit::sim
