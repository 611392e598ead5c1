// Hands a cluster that has not begun to a running block.
#pragma once

#include "../check/race.h"
#include "../detail/block.h"
#include "../detail/bulk_copies.h"
#include "../detail/cluster.h"
#include "../detail/launch_control.h"
#include "../detail/site.h"
#include "cluster.h"
#include "launch_state.h"
#include "schedule.h"

#include <stdint.h>

namespace tkjit::sim {

inline LaunchCancellation cancel_next(Launch& launch) {
    const unsigned long long number = __atomic_fetch_add(&launch.next_block, 1ull, __ATOMIC_RELAXED);
    if (number >= launch.block_count) return {0, 0, 0, 0};
    const unsigned long long first = number_in_grid(launch, schedule::block_at(number), 0);
    const uint3 grid = launch.grid;
    return {static_cast<unsigned>(first % grid.x), static_cast<unsigned>(first / grid.x % grid.y),
            static_cast<unsigned>(first / grid.x / grid.y), 1};
}

void try_cancel_launch(LaunchCancellation* response, uint64_t* barrier, bool for_cluster, Site site) {
    const LaunchCancellation found = cancel_next(*current_block->launch);
    const unsigned first = for_cluster ? 0 : cluster_rank(), end = for_cluster ? cluster_size() : first + 1;
    for (unsigned rank = first; rank < end; rank++) {
        store_async(in_other_block(response, rank, site), &found, sizeof(found),
                    reinterpret_cast<uint64_t*>(in_other_block(barrier, rank, site)), site);
    }
}

}  // namespace tkjit::sim
