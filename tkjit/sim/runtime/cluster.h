// The barrier of a cluster, and the turns of its blocks.
#pragma once

#include "../check/race.h"
#include "../detail/block.h"
#include "../detail/cluster.h"
#include "../detail/fault.h"
#include "../detail/site.h"
#include "../detail/vector_types.h"
#include "blocks.h"
#include "fault.h"
#include "launch_state.h"
#include "schedule.h"
#include "scheduler.h"

#include <utility>

namespace tkjit::sim {

Block& block_of_cluster(unsigned rank, Site site) {
    const Cluster& cluster = *current_block->cluster;
    if (rank >= cluster.count) fail(site, "the cluster has no block of rank %u; it has %u blocks", rank, cluster.count);
    return *cluster.blocks[rank];
}

/// Completes the barrier if all threads of the cluster that have not exited are there. Source: PTX ISA, "barrier.cluster".
inline void complete_cluster_barrier(Cluster& cluster) {
    const unsigned threads = cluster.count * current_block->thread_count;
    if (cluster.arrived == 0 || cluster.arrived < threads - cluster.exited_threads) return;
    cluster.arrived = 0;
    cluster.phase++;
    race::complete(&cluster);
    for (Thread* thread = std::exchange(cluster.first, nullptr); thread;) {
        Thread& released = *std::exchange(thread, thread->next);
        push_ready(*released.block, released);
        released.block->progress++;
    }
}

/// Called when a thread exits. If it has arrived and not waited, it no longer counts as arrived either.
void leave_cluster(const Thread& exited) {
    Cluster& cluster = *exited.block->cluster;
    if (exited.cluster_ticket == 1 + cluster.phase) cluster.arrived--;
    cluster.exited_threads++;
    complete_cluster_barrier(cluster);
}

void cluster_arrive(bool releases, Site site) {
    Thread& thread = *current_thread;
    Cluster& cluster = *thread.block->cluster;
    if (thread.cluster_ticket) fail(site, "barrier.cluster.arrive: the thread has not waited since it last arrived");
    thread.cluster_ticket = 1 + cluster.phase;
    releases ? race::arrive(&cluster) : race::arrive_relaxed(&cluster);
    cluster.arrived++;
    complete_cluster_barrier(cluster);
    count_event(*thread.block);
    give_way();
}

void cluster_wait(Site site) {
    Thread& thread = *current_thread;
    Cluster& cluster = *thread.block->cluster;
    if (thread.cluster_ticket == 0) fail(site, "barrier.cluster.wait: the thread has not arrived");
    if (thread.cluster_ticket == 1 + cluster.phase) {
        thread.next = cluster.first;
        cluster.first = &thread;
        wait_in(Operation::cluster_barrier, site);
    }
    thread.cluster_ticket = 0;
    race::leave(&cluster);
}

/// Returns the number in the grid of a cluster's block.
inline unsigned long long number_in_grid(const Launch& launch, unsigned long long cluster, unsigned rank) {
    const uint3 dims = launch.cluster, grid = launch.grid;
    const unsigned width = grid.x / dims.x, height = grid.y / dims.y;
    const unsigned long long x = cluster % width * dims.x + rank % dims.x;
    const unsigned long long y = cluster / width % height * dims.y + rank / dims.x % dims.y;
    const unsigned long long z = cluster / width / height * dims.z + rank / dims.x / dims.y;
    return (z * grid.y + y) * grid.x + x;
}

inline unsigned long long progress_of(const Cluster& cluster) {
    unsigned long long sum = 0;
    for (unsigned i = 0; i < cluster.count; i++) sum += cluster.blocks[i]->progress;
    return sum;
}

inline constexpr unsigned most_idle_rounds = 1 << 9;  // of a cluster in the checked builds, before its blocks count as stuck
inline constexpr unsigned rounds_before_rest = 64;

/// Runs a cluster. A block that has to wait for others gives up its turn.
inline void run_cluster(Launch& launch, Block* const* blocks, unsigned long long number) {
    Cluster cluster{};
    cluster.dims = launch.cluster;
    cluster.count = launch.cluster.x * launch.cluster.y * launch.cluster.z;
    for (unsigned i = 0; i < cluster.count; i++) {
        cluster.blocks[i] = blocks[i];
        blocks[i]->cluster = &cluster;
        blocks[i]->cluster_rank = i;
        blocks[i]->polls_cluster = false;
    }
    enum class State { new_block, waits, has_ended } states[most_cluster_blocks] = {};
    uint3 indices[most_cluster_blocks];
    const unsigned first = schedule::any_of(cluster.count);
    unsigned left = cluster.count;
    long long idle_since_ns = 0;
    unsigned idle_rounds = 0;
    while (left && !launch_failed(launch)) {
        const unsigned long long before = progress_of(cluster);
        bool polls = false, can_continue = false;
        for (unsigned turn = 0; turn < cluster.count && !launch_failed(launch); turn++) {
            const unsigned rank = (first + turn) % cluster.count;
            Block& block = *blocks[rank];
            if (states[rank] == State::has_ended) continue;
            can_continue |= states[rank] == State::new_block || (block.ready_first && !block.polls_cluster);
            bool has_ended = false;
            if (states[rank] == State::new_block) {
                has_ended = run_block(block, number_in_grid(launch, number, rank));
                indices[rank] = {blockIdx.x, blockIdx.y, blockIdx.z};
            } else {
                current_block = &block;
                blockIdx.x = indices[rank].x, blockIdx.y = indices[rank].y, blockIdx.z = indices[rank].z;
                has_ended = run_on(block);
            }
            states[rank] = has_ended ? State::has_ended : State::waits;
            left -= has_ended;
            polls |= !has_ended && block.polls_cluster;
        }
        if (can_continue || progress_of(cluster) != before) {
            if (idle_since_ns) for (unsigned i = 0; i < cluster.count; i++) set_in_vain(*blocks[i], false);
            idle_since_ns = 0;
            idle_rounds = 0;
            continue;
        }
        if (idle_since_ns == 0) idle_since_ns = now_ns();
        idle_rounds++;
        const bool is_idle = one_at_a_time ? idle_rounds > most_idle_rounds : now_ns() - idle_since_ns > patience_ns;
        for (unsigned i = 0; i < cluster.count && is_idle; i++) set_in_vain(*blocks[i], true);
        cluster.is_stuck = !polls || (is_idle && (one_at_a_time || all_in_vain(launch)));
        if (polls && !one_at_a_time && idle_rounds > rounds_before_rest) rest();
    }
    for (unsigned i = 0; i < cluster.count; i++) {
        set_in_vain(*blocks[i], false);
        if (states[i] == State::waits) reset_after_fault(*blocks[i]);
    }
}

}  // namespace tkjit::sim
