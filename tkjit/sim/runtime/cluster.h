// The barrier of a cluster, the turns of its blocks, and those of the clusters on an OS thread.
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
    const unsigned exited = cluster.count == 1 ? current_block->exited : cluster.exited_threads;
    if (cluster.arrived == 0 || cluster.arrived < threads - exited) return;
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
    releases ? race::arrive(&cluster) : race::arrive_relaxed(&cluster, Scope::cluster);
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

/// Returns a number that grows when something happens in the cluster. Polling for other devices does not count.
inline unsigned long long progress_of(const Cluster& cluster) {
    unsigned long long sum = 0;
    for (unsigned i = 0; i < cluster.count; i++) sum += cluster.blocks[i]->progress - cluster.blocks[i]->device_turns;
    return sum;
}

/// Runs a cluster's blocks. One that has to wait for others gives up its turn. `steps` counts the rounds, of all clusters
/// on the OS thread, in which something has happened.
class ClusterRun {
  public:
    ClusterRun(Launch& launch, Block* const* blocks, unsigned long long number, unsigned long long& steps)
        : launch_(launch), number_(number), steps_(steps) {
        cluster_.dims = launch.cluster;
        cluster_.count = volume_of(launch.cluster);
        for (unsigned rank = 0; rank < cluster_.count; rank++) {
            Block& block = *(cluster_.blocks[rank] = blocks[rank]);
            block.cluster = &cluster_;
            block.cluster_rank = rank;
            block.polls_cluster = false;
        }
        left_ = cluster_.count;
    }

    /// Gives each block a turn, until all have ended or only poll. Returns false if they only poll: another cluster may
    /// have to run first.
    bool run() {
        const unsigned first = schedule::any_of(cluster_.count);
        while (left_ && !launch_failed(launch_)) {
            const unsigned long long before = progress_of(cluster_);
            polls_ = can_continue_ = false;
            for (unsigned turn = 0; turn < cluster_.count && !launch_failed(launch_); turn++) {
                give_turn_to((first + turn) % cluster_.count);
            }
            const bool has_progressed = can_continue_ || progress_of(cluster_) != before;
            note_round(has_progressed);
            if (!has_progressed && polls_) return launch_failed(launch_);
        }
        return true;
    }

    /// Called when the cluster has ended, or the launch has failed.
    void end() {
        for (unsigned rank = 0; rank < cluster_.count; rank++) {
            set_in_vain(*cluster_.blocks[rank], false);
            if (states_[rank] == State::waits) reset_after_fault(*cluster_.blocks[rank]);
        }
    }

    Block* const* blocks() const { return cluster_.blocks; }

  private:
    enum class State { new_block, waits, has_ended };

    void give_turn_to(unsigned rank) {
        if (states_[rank] == State::has_ended) return;
        Block& block = *cluster_.blocks[rank];
        can_continue_ |= states_[rank] == State::new_block || (block.ready_first && !block.polls_cluster);
        bool has_ended;
        if (states_[rank] == State::new_block) {
            has_ended = run_block(block, number_in_grid(launch_, number_, rank));
            indices_[rank] = {blockIdx.x, blockIdx.y, blockIdx.z};
        } else {
            current_block = &block;
            blockIdx.x = indices_[rank].x, blockIdx.y = indices_[rank].y, blockIdx.z = indices_[rank].z;
            has_ended = run_on(block);
        }
        states_[rank] = has_ended ? State::has_ended : State::waits;
        left_ -= has_ended;
        polls_ |= !has_ended && block.polls_cluster;
    }

    /// Finds out whether the cluster waits for something that can never happen. If some of its threads poll, it may be for
    /// a block of another cluster.
    void note_round(bool has_progressed) {
        constexpr unsigned most_idle_rounds = 1 << 9;
        steps_ += has_progressed;
        if (steps_ != last_step_) {
            last_step_ = steps_;
            if (idle_rounds_) set_all_in_vain(false);
            idle_rounds_ = 0;
        }
        if (has_progressed) return;
        if (idle_rounds_++ == 0) idle_since_ns_ = now_ns();
        const bool is_idle = one_at_a_time ? idle_rounds_ > most_idle_rounds : now_ns() - idle_since_ns_ > patience_ns;
        if (is_idle) set_all_in_vain(true);
        cluster_.is_stuck = !polls_ || (is_idle && (one_at_a_time || all_in_vain(launch_)));
    }

    void set_all_in_vain(bool in_vain) {
        for (unsigned rank = 0; rank < cluster_.count; rank++) set_in_vain(*cluster_.blocks[rank], in_vain);
    }

    Launch& launch_;
    const unsigned long long number_;
    unsigned long long &steps_, last_step_ = 0;
    Cluster cluster_{};
    State states_[most_cluster_blocks] = {};
    uint3 indices_[most_cluster_blocks];
    unsigned left_, idle_rounds_ = 0;
    long long idle_since_ns_ = 0;
    bool polls_ = false, can_continue_ = false;  // in this round
};

}  // namespace tkjit::sim
