// Clusters: blocks that run at the same time, wait for each other, and access each other's shared memory.
//
// Source: PTX ISA, "Cluster of Cooperative Thread Arrays", "mapa", "getctarank", "barrier.cluster".
#pragma once

#include "block.h"
#include "fault.h"
#include "site.h"
#include "vector_types.h"
#include "window.h"

#include <stdint.h>

namespace tkjit::sim {

inline unsigned cluster_rank() { return current_block->cluster_rank; }
inline uint3 cluster_dims() { return current_block->cluster->dims; }
inline unsigned cluster_size() { return current_block->cluster->count; }
inline uint3 block_in_cluster() {
    const uint3 dims = cluster_dims();
    return {::blockIdx.x % dims.x, ::blockIdx.y % dims.y, ::blockIdx.z % dims.z};
}
inline uint3 cluster_index() {
    const uint3 dims = cluster_dims();
    return {::blockIdx.x / dims.x, ::blockIdx.y / dims.y, ::blockIdx.z / dims.z};
}
inline uint3 clusters_in_grid() {
    const uint3 dims = cluster_dims();
    return {::gridDim.x / dims.x, ::gridDim.y / dims.y, ::gridDim.z / dims.z};
}

/// Arrives at the cluster's barrier, and waits for the other threads of the cluster. `releases` tells whether the barrier
/// orders the thread's earlier accesses.
void cluster_arrive(bool releases, Site site = Site::here());
void cluster_wait(Site site = Site::here());

/// Returns the block of a rank, which must exist.
Block& block_of_cluster(unsigned rank, Site site);

/// Returns the block whose window contains an address: the running one, unless it is another one of the cluster.
inline Block& owner_of(const void* address) {
    Block& own = *current_block;
    if (own.cluster->count == 1 || offset_in_window(address) < window_bytes) return own;
    for (unsigned i = 0; i < own.cluster->count; i++) {
        Block& other = *own.cluster->blocks[i];
        if (static_cast<size_t>(static_cast<const char*>(address) - other.window) < window_bytes) return other;
    }
    return own;
}

/// Returns the place in another block's shared memory that corresponds to one in any block's.
inline char* in_other_block(const void* address, unsigned rank, Site site) {
    const auto offset = static_cast<size_t>(static_cast<const char*>(address) - owner_of(address).window);
    if (offset >= window_bytes) fail(site, "%p is not in shared memory, so no other block of the cluster has it", address);
    return block_of_cluster(rank, site).window + offset;
}

/// PTX ISA, `mapa` of a 32-bit address.
inline uint32_t cluster_address(uint32_t address, unsigned rank, Site site) {
    block_of_cluster(rank, site);
    return rank << rank_shift | (address & ((1u << rank_shift) - 1));
}

/// PTX ISA, `getctarank`.
inline unsigned rank_of_address(uint32_t address) { return address >> rank_shift; }
inline unsigned rank_of(const void* address) { return owner_of(address).cluster_rank; }

}  // namespace tkjit::sim

// Source: CUDA C++ Programming Guide, "Thread Block Clusters", and the toolkit's cooperative_groups.
inline void __cluster_barrier_arrive(tkjit::sim::Site site = tkjit::sim::Site::here()) { tkjit::sim::cluster_arrive(true, site); }
inline void __cluster_barrier_arrive_relaxed(tkjit::sim::Site site = tkjit::sim::Site::here()) {
    tkjit::sim::cluster_arrive(false, site);
}
inline void __cluster_barrier_wait(tkjit::sim::Site site = tkjit::sim::Site::here()) { tkjit::sim::cluster_wait(site); }
inline unsigned __clusterRelativeBlockRank() { return tkjit::sim::cluster_rank(); }
inline unsigned __clusterSizeInBlocks() { return tkjit::sim::cluster_size(); }
inline dim3 __clusterDim() { return tkjit::sim::cluster_dims(); }
inline dim3 __clusterRelativeBlockIdx() { return tkjit::sim::block_in_cluster(); }
inline dim3 __clusterIdx() { return tkjit::sim::cluster_index(); }
inline dim3 __clusterGridDimInClusters() { return tkjit::sim::clusters_in_grid(); }
inline void* __cluster_map_shared_rank(const void* address, unsigned rank, tkjit::sim::Site site = tkjit::sim::Site::here()) {
    return tkjit::sim::in_other_block(address, rank, site);
}
inline unsigned __cluster_query_shared_rank(const void* address) { return tkjit::sim::rank_of(address); }
