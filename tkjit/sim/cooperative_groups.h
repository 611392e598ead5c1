// The simulator's `cooperative_groups.h`: CUDA's groups of threads.
//
//   thread_block, grid_group          the threads that the block's and the grid's barriers wait for
//   cluster_group                     the blocks of a cluster
//   thread_block_tile<N>              2^k adjacent lanes of a warp
//   coalesced_group                   any lanes of a warp
//   thread_group                      any of these, chosen at run time
//
// Source: CUDA C++ Programming Guide, "Cooperative Groups". In a group of lanes, `rank` counts the group's own lanes
// from the lowest, and votes and matches have one bit per rank. Tiles of more than a warp and multi_grid are missing.
#pragma once

#include "cuda_runtime.h"

namespace cooperative_groups {

// Helpers are in `detail`, because a program's `using namespace cooperative_groups` should bring in only CUDA's names.
namespace detail {

using tkjit::sim::Operation;
using tkjit::sim::Site;

/// The lane of the rank-th set bit of a mask, counted from 0; the calling lane if the mask has fewer bits.
inline int lane_of_rank(unsigned mask, unsigned rank) {
    if (rank >= static_cast<unsigned>(__popc(mask))) return tkjit::sim::running_lane();
    while (rank--) mask &= mask - 1;
    return __ffs(static_cast<int>(mask)) - 1;
}

inline unsigned rank_in(unsigned mask, int lane) { return __popc(mask & ((1u << lane) - 1)); }

/// Packs the bits of `lanes` at the positions of `mask` into the lowest bits.
inline unsigned by_rank(unsigned lanes, unsigned mask) {
    unsigned ranks = 0;
    for (unsigned rank = 0; mask; rank++, mask &= mask - 1) {
        ranks |= (lanes >> (__ffs(static_cast<int>(mask)) - 1) & 1) << rank;
    }
    return ranks;
}

inline unsigned block_threads() { return blockDim.x * blockDim.y * blockDim.z; }

/// The lanes of the calling lane's tile of `size` lanes, including those that do not exist.
inline unsigned tile_mask(unsigned size) {
    const unsigned first = tkjit::sim::running_lane() & ~(size - 1);
    return (size == 32 ? ~0u : (1u << size) - 1) << first;
}

/// The base of groups of a warp's lanes.
class lane_group {
  public:
    lane_group(unsigned mask, unsigned meta_rank, unsigned meta_size)
        : mask_(mask), meta_rank_(meta_rank), meta_size_(meta_size) {}

    void sync(Site site = Site::here()) const { __syncwarp(whole(), site); }
    unsigned thread_rank() const { return rank_in(mask_, tkjit::sim::running_lane()); }
    unsigned num_threads() const { return __popc(mask_); }
    unsigned size() const { return num_threads(); }
    unsigned meta_group_rank() const { return meta_rank_; }
    unsigned meta_group_size() const { return meta_size_; }

    template <class T>
    T shfl(T value, int rank, Site site = Site::here()) const {
        return exchange(Operation::shuffle, value, lane_of_rank(mask_, static_cast<unsigned>(rank)), site);
    }
    template <class T>
    T shfl_up(T value, unsigned delta, Site site = Site::here()) const {
        const unsigned rank = thread_rank();
        return exchange(Operation::shuffle_up, value, lane_of_rank(mask_, rank >= delta ? rank - delta : rank), site);
    }
    template <class T>
    T shfl_down(T value, unsigned delta, Site site = Site::here()) const {
        const unsigned source = thread_rank() + delta;
        return exchange(Operation::shuffle_down, value,
                        delta < 32 ? lane_of_rank(mask_, source) : tkjit::sim::running_lane(), site);
    }

    unsigned ballot(int predicate, Site site = Site::here()) const {
        return by_rank(__ballot_sync(whole(), predicate, site), mask_);
    }
    int any(int predicate, Site site = Site::here()) const { return __any_sync(whole(), predicate, site); }
    int all(int predicate, Site site = Site::here()) const { return __all_sync(whole(), predicate, site); }
    template <class T>
    unsigned match_any(T value, Site site = Site::here()) const {
        return by_rank(__match_any_sync(whole(), value, site), mask_);
    }
    template <class T>
    unsigned match_all(T value, int& all_equal, Site site = Site::here()) const {
        return by_rank(__match_all_sync(whole(), value, &all_equal, site), mask_);
    }

    /// The warp's lanes that belong to the group, for code that builds on groups.
    unsigned lanes() const { return mask_; }

    /// Returns the same lanes, and makes the group's next operation fail unless all threads of the group take part.
    unsigned whole() const {
        tkjit::sim::require_whole_group();
        return mask_;
    }

  protected:
    template <class T>
    T exchange(Operation operation, T value, int source_lane, Site site) const {
        return tkjit::sim::shuffle(whole(), operation, value, source_lane, site);
    }

    unsigned mask_, meta_rank_, meta_size_;
};

}  // namespace detail

/// All threads of the running thread's block.
class thread_block {
  public:
    static void sync(detail::Site site = detail::Site::here()) { tkjit::sim::sync_threads(site); }
    static unsigned thread_rank() { return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x; }
    static unsigned num_threads() { return detail::block_threads(); }
    static unsigned size() { return num_threads(); }
    static dim3 group_index() { return blockIdx; }
    static dim3 thread_index() { return threadIdx; }
    static dim3 dim_threads() { return blockDim; }
    static dim3 group_dim() { return blockDim; }
};

/// All threads of the grid. They can wait for each other only in a cooperative launch.
class grid_group {
  public:
    void sync(detail::Site site = detail::Site::here()) const { tkjit::sim::sync_grid(site); }
    bool is_valid() const { return true; }
    unsigned long long thread_rank() const { return block_rank() * thread_block::size() + thread_block::thread_rank(); }
    unsigned long long num_threads() const { return num_blocks() * thread_block::size(); }
    unsigned long long size() const { return num_threads(); }
    unsigned long long block_rank() const {
        return (1ull * blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    }
    unsigned long long num_blocks() const { return 1ull * gridDim.x * gridDim.y * gridDim.z; }
    dim3 block_index() const { return blockIdx; }
    dim3 dim_blocks() const { return gridDim; }
    dim3 group_dim() const { return gridDim; }
};

/// All threads of the running thread's cluster, which is its block if the launch has no clusters.
class cluster_group {
  public:
    static void sync(detail::Site site = detail::Site::here()) {
        tkjit::sim::cluster_arrive(true, site);
        tkjit::sim::cluster_wait(site);
    }
    struct arrival_token {};
    static arrival_token barrier_arrive(detail::Site site = detail::Site::here()) {
        tkjit::sim::cluster_arrive(true, site);
        return {};
    }
    static void barrier_wait(detail::Site site = detail::Site::here()) { tkjit::sim::cluster_wait(site); }
    static void barrier_wait(arrival_token&&, detail::Site site = detail::Site::here()) { tkjit::sim::cluster_wait(site); }
    static unsigned thread_rank() { return block_rank() * detail::block_threads() + thread_block::thread_rank(); }
    static unsigned num_threads() { return num_blocks() * detail::block_threads(); }
    static unsigned size() { return num_threads(); }
    static unsigned block_rank() { return tkjit::sim::cluster_rank(); }
    static unsigned num_blocks() { return tkjit::sim::cluster_size(); }
    static dim3 block_index() { return tkjit::sim::block_in_cluster(); }
    static dim3 dim_blocks() { return tkjit::sim::cluster_dims(); }
    static dim3 dim_threads() {
        const dim3 blocks = dim_blocks();
        return {blocks.x * blockDim.x, blocks.y * blockDim.y, blocks.z * blockDim.z};
    }
    static dim3 thread_index() {
        const dim3 block = block_index();
        return {block.x * blockDim.x + threadIdx.x, block.y * blockDim.y + threadIdx.y, block.z * blockDim.z + threadIdx.z};
    }
    static unsigned query_shared_rank(const void* address) { return tkjit::sim::rank_of(address); }
    template <class T>
    static T* map_shared_rank(T* address, int rank, detail::Site site = detail::Site::here()) {
        return reinterpret_cast<T*>(tkjit::sim::in_other_block(address, static_cast<unsigned>(rank), site));
    }
};
inline cluster_group this_cluster() { return {}; }

/// Lanes of a warp, not necessarily adjacent.
class coalesced_group : public detail::lane_group {
  public:
    explicit coalesced_group(unsigned mask, unsigned meta_rank = 0, unsigned meta_size = 1)
        : lane_group(mask, meta_rank, meta_size) {}
};

/// `Size` adjacent lanes of a warp. `Parent` is the type of the group that was partitioned.
template <unsigned Size, class Parent = void>
class thread_block_tile : public detail::lane_group {
    static_assert(Size >= 1 && Size <= 32 && (Size & (Size - 1)) == 0,
                  "the simulator supports tiles of 1, 2, 4, 8, 16 or 32 threads");

  public:
    thread_block_tile(unsigned meta_rank, unsigned meta_size)
        : lane_group(detail::tile_mask(Size), meta_rank, meta_size) {}
    template <class Other>
    thread_block_tile(const thread_block_tile<Size, Other>& other)
        : thread_block_tile(other.meta_group_rank(), other.meta_group_size()) {}

    static constexpr unsigned num_threads() { return Size; }
    static constexpr unsigned size() { return Size; }
    unsigned thread_rank() const { return tkjit::sim::running_lane() % Size; }

    /// A rank beyond the tile wraps around, as in __shfl_sync.
    template <class T>
    T shfl(T value, int rank, detail::Site site = detail::Site::here()) const {
        return lane_group::shfl(value, rank & int(Size - 1), site);
    }
    template <class T>
    T shfl_xor(T value, unsigned lane_mask, detail::Site site = detail::Site::here()) const {
        const int lane = tkjit::sim::running_lane();
        const unsigned rank = thread_rank() ^ lane_mask;
        return exchange(detail::Operation::shuffle_xor, value,
                        rank < Size ? lane - int(thread_rank()) + int(rank) : lane, site);
    }
};

/// Any group, chosen at run time.
class thread_group {
  public:
    thread_group(const thread_block&) : kind_(Kind::block) {}
    thread_group(const grid_group&) : kind_(Kind::grid) {}
    thread_group(const detail::lane_group& group) : kind_(Kind::lanes), lanes_(group.lanes()) {}

    void sync(detail::Site site = detail::Site::here()) const {
        if (kind_ == Kind::block) tkjit::sim::sync_threads(site);
        else if (kind_ == Kind::grid) tkjit::sim::sync_grid(site);
        else tkjit::sim::require_whole_group(), __syncwarp(lanes_, site);
    }
    unsigned long long thread_rank() const {
        return kind_ == Kind::block  ? thread_block::thread_rank()
               : kind_ == Kind::grid ? grid_group().thread_rank()
                                     : detail::rank_in(lanes_, tkjit::sim::running_lane());
    }
    unsigned long long num_threads() const {
        return kind_ == Kind::block ? thread_block::size() : kind_ == Kind::grid ? grid_group().size() : __popc(lanes_);
    }
    unsigned long long size() const { return num_threads(); }

    bool is_block() const { return kind_ == Kind::block; }
    unsigned lanes() const { return lanes_; }

  private:
    enum class Kind { block, grid, lanes };
    Kind kind_;
    unsigned lanes_ = 0;
};

inline thread_block this_thread_block() { return {}; }
inline grid_group this_grid() { return {}; }

/// The lanes that are at this line at the same time.
inline coalesced_group coalesced_threads(detail::Site site = detail::Site::here()) {
    return coalesced_group(__activemask(site));
}

template <unsigned Size>
inline thread_block_tile<Size, thread_block> tiled_partition(const thread_block&) {
    return {thread_block::thread_rank() / Size, (thread_block::size() + Size - 1) / Size};
}
template <unsigned Size, unsigned ParentSize, class GrandParent>
inline thread_block_tile<Size, thread_block_tile<ParentSize, GrandParent>> tiled_partition(
    const thread_block_tile<ParentSize, GrandParent>& parent) {
    static_assert(Size <= ParentSize, "a tile must not be larger than the tile it is partitioned from");
    return {parent.thread_rank() / Size, ParentSize / Size};
}

/// Divides a group into groups of `size` consecutive ranks, and returns the caller's.
inline coalesced_group tiled_partition(const coalesced_group& parent, unsigned size) {
    const unsigned tile = parent.thread_rank() / size;
    unsigned mask = 0;
    for (unsigned rank = tile * size; rank < (tile + 1) * size && rank < parent.size(); rank++) {
        mask |= 1u << detail::lane_of_rank(parent.lanes(), rank);
    }
    return coalesced_group(mask, tile, (parent.size() + size - 1) / size);
}
inline thread_group tiled_partition(const thread_group& parent, unsigned size,
                                    detail::Site site = detail::Site::here()) {
    if (!parent.is_block()) return tiled_partition(coalesced_group(parent.lanes()), size);
    tkjit::sim::check_width(static_cast<int>(size), site);
    return coalesced_group(detail::tile_mask(size) & tkjit::sim::existing_lanes(*tkjit::sim::current_thread));
}

/// Returns the threads of the group that have the same label as the caller.
template <class Group, class Label>
inline coalesced_group labeled_partition(const Group& group, Label label, detail::Site site = detail::Site::here()) {
    return coalesced_group(__match_any_sync(group.whole(), label, site));
}

/// Returns the threads of the group that have the same predicate as the caller.
template <class Group>
inline coalesced_group binary_partition(const Group& group, bool predicate, detail::Site site = detail::Site::here()) {
    const unsigned all = group.lanes() & tkjit::sim::existing_lanes(*tkjit::sim::current_thread);
    const unsigned holds = __ballot_sync(group.whole(), predicate, site);
    return coalesced_group(predicate ? holds : all & ~holds, predicate, 2);
}

template <class Group>
inline void sync(const Group& group, detail::Site site = detail::Site::here()) {
    group.sync(site);
}
template <class Group>
inline auto thread_rank(const Group& group) {
    return group.thread_rank();
}
template <class Group>
inline auto group_size(const Group& group) {
    return group.size();
}

/// Calls `function` in one thread of the group; the others continue.
template <class Group, class Function, class... Arguments>
inline void invoke_one(const Group& group, Function&& function, Arguments&&... arguments) {
    if (group.thread_rank() == 0) function(static_cast<Arguments&&>(arguments)...);
}

/// Like invoke_one, but returns the function's result to all threads of the group.
template <class Group, class Function, class... Arguments>
inline auto invoke_one_broadcast(const Group& group, Function&& function, Arguments&&... arguments) {
    decltype(function(static_cast<Arguments&&>(arguments)...)) result{};
    if (group.thread_rank() == 0) result = function(static_cast<Arguments&&>(arguments)...);
    return group.shfl(result, 0);
}

}  // namespace cooperative_groups
