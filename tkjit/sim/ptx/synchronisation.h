// PTX ISA, "Parallel Synchronization and Communication Instructions", and special registers.
#pragma once

#include "operands.h"

#include <time.h>

namespace tkjit::sim::ptx {

// ---- special registers

inline unsigned laneid() { return lane_of(*current_thread); }
inline unsigned warpid() { return current_thread->linear / warp_threads; }
inline unsigned smid() { return (::blockIdx.x + ::gridDim.x * (::blockIdx.y + ::gridDim.y * ::blockIdx.z)) % 132; }
inline uint64_t clock() { return static_cast<uint64_t>(clock64()); }
inline uint64_t globaltimer() {
    timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
}
unsigned dynamic_smem_size();
unsigned total_smem_size();

// ---- barriers of a block

/// PTX ISA, `barrier.sync`. Without a thread count it waits for the whole block.
template <bool is_aligned>
inline void bar_sync(unsigned id, unsigned threads, Site site = Site::here()) {
    if (threads == 0 && id == 0) {
        sync_threads(site);
    } else {
        named_barrier_sync(id, threads ? threads : current_thread->block->thread_count, site, is_aligned);
    }
}
inline void bar_arrive(unsigned id, unsigned threads, Site site = Site::here()) { named_barrier_arrive(id, threads, site); }

/// PTX ISA, `mapa` and `getctarank`.
inline uint32_t mapa(uint32_t address, unsigned rank, Site site = Site::here()) { return cluster_address(address, rank, site); }
inline uint64_t mapa_generic(uint64_t address, unsigned rank, Site site = Site::here()) {
    return reinterpret_cast<uint64_t>(in_other_block(reinterpret_cast<const char*>(address), rank, site));
}
inline unsigned getctarank(uint32_t address) { return rank_of_address(address); }
inline unsigned getctarank_generic(uint64_t address) { return rank_of(reinterpret_cast<const char*>(address)); }

// ---- warps

/// PTX ISA, `elect.sync`: the lowest lane of the mask. The lanes meet, but their accesses to memory are not ordered.
inline unsigned elect(unsigned mask, Site site = Site::here()) {
    return static_cast<unsigned>(__builtin_ctz(vote(mask, Operation::elect, true, site)));
}

/// The result of `shfl.sync`: the value, and whether its source lane is within the segment.
struct Moved {
    uint32_t value;
    bool is_within;
};

/// PTX ISA, `shfl.sync`: bits 8 to 12 of `clamp` are the segment mask, the low five bits the bound.
template <class Pick>
inline Moved move_between_lanes(Operation operation, uint32_t value, uint32_t clamp, uint32_t mask, Site site, Pick pick) {
    const int lane = running_lane(), segment = static_cast<int>(clamp >> 8 & 31), bound = static_cast<int>(clamp & 31);
    const int highest = (lane & segment) | (bound & ~segment), lowest = lane & segment;
    const int source = pick(lane, lowest, segment);
    const bool is_within = operation == Operation::shuffle_up ? source >= highest : source <= highest;
    return {shuffle(mask, operation, value, is_within ? source : lane, site), is_within};
}
inline Moved shfl_idx(uint32_t value, uint32_t index, uint32_t clamp, uint32_t mask, Site site = Site::here()) {
    return move_between_lanes(Operation::shuffle, value, clamp, mask, site, [=](int, int lowest, int segment) {
        return lowest | (static_cast<int>(index & 31) & ~segment);
    });
}
inline Moved shfl_up(uint32_t value, uint32_t by, uint32_t clamp, uint32_t mask, Site site = Site::here()) {
    return move_between_lanes(Operation::shuffle_up, value, clamp, mask, site,
                              [=](int lane, int, int) { return lane - static_cast<int>(by & 31); });
}
inline Moved shfl_down(uint32_t value, uint32_t by, uint32_t clamp, uint32_t mask, Site site = Site::here()) {
    return move_between_lanes(Operation::shuffle_down, value, clamp, mask, site,
                              [=](int lane, int, int) { return lane + static_cast<int>(by & 31); });
}
inline Moved shfl_bfly(uint32_t value, uint32_t by, uint32_t clamp, uint32_t mask, Site site = Site::here()) {
    return move_between_lanes(Operation::shuffle_xor, value, clamp, mask, site,
                              [=](int lane, int, int) { return lane ^ static_cast<int>(by & 31); });
}

// ---- mbarriers

inline uint64_t* barrier_at(char* address) { return reinterpret_cast<uint64_t*>(address); }

/// PTX ISA, `mbarrier.init`.
inline void mbarrier_init(char* barrier, unsigned count, Site site = Site::here()) {
    sim::mbarrier_init(barrier_at(barrier), count, site);
}
/// PTX ISA, `mbarrier.inval`.
inline void mbarrier_inval(char* barrier, Site site = Site::here()) { sim::mbarrier_invalidate(barrier_at(barrier), site); }
/// PTX ISA, `mbarrier.expect_tx`, which is always relaxed, and `mbarrier.complete_tx`.
inline void mbarrier_expect_tx(char* barrier, unsigned bytes, Site site = Site::here()) {
    sim::mbarrier_arrive(barrier_at(barrier), 0, bytes, site, Ordering::relaxed);
}
inline void mbarrier_complete_tx(char* barrier, unsigned bytes, Site site = Site::here()) {
    sim::mbarrier_complete_bytes(barrier_at(barrier), bytes, site);
}

/// PTX ISA, `mbarrier.arrive` and `mbarrier.arrive_drop`. Return the previous state, from which a wait reads the phase.
template <Ordering ordering = Ordering::ordered>
inline uint64_t mbarrier_arrive(char* barrier, unsigned count, unsigned expected_bytes, Site site = Site::here()) {
    return sim::mbarrier_arrive(barrier_at(barrier), count, expected_bytes, site, ordering);
}
template <Ordering ordering = Ordering::ordered>
inline uint64_t mbarrier_arrive_drop(char* barrier, unsigned count, unsigned expected_bytes, Site site = Site::here()) {
    return sim::mbarrier_arrive_and_drop(barrier_at(barrier), count, expected_bytes, site, ordering);
}
inline unsigned parity_of(uint64_t state) { return static_cast<unsigned>(state & 1); }

/// PTX ISA, `mbarrier.pending_count`.
inline unsigned mbarrier_pending_count(uint64_t state) { return static_cast<unsigned>(state >> 21 & 0xfffff); }

/// PTX ISA, `mbarrier.test_wait`, `mbarrier.try_wait`. If the `asm` statement itself loops, it waits until the phase is
/// over.
template <bool until_it_is_over, Ordering ordering = Ordering::ordered>
inline bool mbarrier_wait(char* barrier, unsigned parity, Site site = Site::here()) {
    if constexpr (until_it_is_over) {
        sim::mbarrier_wait(barrier_at(barrier), parity, site, ordering);
        return true;
    } else {
        return sim::mbarrier_test(barrier_at(barrier), parity, site, ordering);
    }
}

/// PTX ISA, `cp.async.mbarrier.arrive`.
template <bool is_counted_already>
inline void cp_async_mbarrier_arrive(char* barrier, Site site = Site::here()) {
    arrive_after_copies(barrier_at(barrier), is_counted_already, site);
}

// ---- bulk copies

/// PTX ISA, `cp.async.bulk`.
inline void bulk_load(char* to, const char* from, unsigned bytes, char* barrier, Site site = Site::here()) {
    sim::bulk_copy(to, from, bytes, barrier_at(barrier), site);
}
inline void bulk_store(char* to, const char* from, unsigned bytes, Site site = Site::here()) {
    sim::bulk_store(to, from, bytes, site);
}

/// PTX ISA, `cp.reduce.async.bulk` to global memory.
inline void bulk_reduce(Reduction reduction, TensorType type, char* to, const char* from, unsigned bytes,
                        Site site = Site::here()) {
    sim::bulk_reduce(reduction, type, to, from, bytes, site);
}

inline void bulk_load_to_blocks(char* to, const char* from, unsigned bytes, char* barrier, unsigned ranks, Site site = Site::here()) {
    sim::bulk_copy_to_blocks(to, from, bytes, barrier_at(barrier), ranks, site);
}

/// PTX ISA, `st.async`.
template <class T, unsigned count>
inline void st_async(char* to, const T (&values)[count], char* barrier, Site site = Site::here()) {
    sim::store_async(aligned<T>(to, site), values, sizeof(values), barrier_at(barrier), site);
}

}  // namespace tkjit::sim::ptx
