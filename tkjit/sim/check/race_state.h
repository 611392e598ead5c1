// The race detector's state: for threads, for the objects at which they meet, and for memory.
#pragma once

#include "../detail/block.h"
#include "../detail/pending_registers.h"
#include "../detail/scopes.h"
#include "../detail/vector_types.h"
#include "clocks.h"
#include "places.h"
#include "regions.h"
#include "shadow.h"

#include <stdint.h>

#include <memory>
#include <unordered_map>
#include <vector>

namespace tkjit::sim::race {

using check::places;
using check::Region;

inline constexpr unsigned scopes = 3;
inline unsigned number_of(Scope scope) { return static_cast<unsigned>(scope); }

/// The accesses before a fence that releases, and those before one that acquires and knows of the release:
/// fence.proxy.tensormap for tensor maps, tcgen05.fence for tensor memory.
struct Fences {
    Knowledge released, acquired;
};

/// Null for almost all kernels, which keeps views small.
class SharedFences {
  public:
    const Fences* operator->() const { return fences_.get(); }
    explicit operator bool() const { return fences_ != nullptr; }

    void learn(const Fences& other) {
        Fences joined = fences_ ? *fences_ : Fences{};
        joined.released.learn(other.released);
        joined.acquired.learn(other.acquired);
        fences_ = std::make_shared<const Fences>(joined);
    }
    void learn(const SharedFences& other) {
        if (other.fences_ && other.fences_ != fences_) learn(*other.fences_);
    }
    /// Learns of releases only: each thread has to acquire itself.
    void learn_releases(const SharedFences& other) {
        if (other.fences_ && other.fences_ != fences_) release(other.fences_->released);
    }
    void release(const Knowledge& known) { learn(Fences{known, {}}); }
    void acquire() {
        if (fences_) learn(Fences{{}, fences_->released});
    }
    bool have_ordered(unsigned block, unsigned thread, unsigned clock) const {
        return fences_ && fences_->acquired.includes(block, thread, clock);
    }

  private:
    std::shared_ptr<const Fences> fences_;
};

/// What a thread, or an object at which threads meet, knows: which accesses are over, and which of these accesses the
/// async proxy sees as well. TMA and wgmma access memory through this proxy. A write is visible to it if a proxy fence is
/// on the path of synchronisation from the write to the asynchronous operation.
/// Source: PTX ISA, "Memory Consistency Model: Proxy-preserved base causality order".
struct View {
    Knowledge knows;
    Knowledge seen_by_async[2];  // by state space: shared, global
    Knowledge fenced_by_writer[2];  // those of them after which the accessing thread itself has executed the fence
    Knowledge unfenced;          // known from a compare-and-swap, and over only once a fence follows
    SharedFences map_fences, tensor_fences;
    bool knows_previous_launches = false;  // that they have ended, if this is a dependent launch

    bool is_empty() const { return knows.is_empty(); }
    void clear() { *this = {}; }
    void learn(const View& other) {
        knows.learn(other.knows);
        unfenced.learn(other.unfenced);
        learn_of_proxies(other);
    }
    /// Learns at once, or when a fence follows. What a proxy sees counts only for accesses that are known.
    void learn_after(bool fence, const View& other) {
        if (!fence) return learn(other);
        unfenced.learn(other.knows);
        learn_of_proxies(other);
    }
    /// Forgets everything that another thread of the block does not know.
    void keep_common(const View& other) {
        knows.keep_common(other.knows);
        for (unsigned i = 0; i < 2; i++) seen_by_async[i].keep_common(other.seen_by_async[i]);
        for (unsigned i = 0; i < 2; i++) fenced_by_writer[i].keep_common(other.fenced_by_writer[i]);
        knows_previous_launches &= other.knows_previous_launches;
    }

  private:
    void learn_of_proxies(const View& other) {
        for (unsigned i = 0; i < 2; i++) seen_by_async[i].learn(other.seen_by_async[i]);
        for (unsigned i = 0; i < 2; i++) fenced_by_writer[i].learn(other.fenced_by_writer[i]);
        map_fences.learn(other.map_fences);
        tensor_fences.learn_releases(other.tensor_fences);
        knows_previous_launches |= other.knows_previous_launches;
    }
};

/// Registers of a thread that a product, or a load from tensor memory, uses until the thread has waited for it.
struct PendingRegisters {
    uintptr_t begin, end;
    unsigned product;  // the number of the warpgroup's product, which counts from 1
    unsigned where;
    RegisterUse use;
};

/// An instruction that all lanes of a warp have to execute together (`.aligned`), although no lane waits for the others.
enum class Aligned : unsigned char { wgmma_fence, wgmma_commit, wgmma_wait, tensor_wait_ld, tensor_wait_st };
struct Executed {
    Aligned instruction;
    unsigned where;
    friend bool operator==(const Executed&, const Executed&) = default;
};

/// The detector's record of a CUDA thread.
struct ThreadState : View {
    View released[scopes];   // its view at its last fence, by the fence's scope
    std::shared_ptr<const View> released_mbarriers;  // at its last fence.mbarrier_init; only a cluster's barrier passes it on
    Scope scope = Scope::device;  // of its atomic operation or fence
    bool swaps = false;           // see detail/scopes.h
    bool has_waited_relaxed = false;  // for an mbarrier, since its last fence
    std::vector<unsigned> calls;    // places, outermost first
    uintptr_t statement = 0;        // the address of the `asm` statement that runs, if one does
    std::vector<uintptr_t> frames;  // where the local variables of each of these functions begin
    unsigned copies[7] = {};  // the number issued, by kind; a warpgroup's first thread counts wgmma products, and a warp's
                              // first lane its accesses to tensor memory
    std::vector<unsigned> store_groups;  // for each group of stores not waited for yet: the writes issued before its commit
    std::vector<unsigned> groups;  // for each wgmma group not waited for yet: the products issued before its commit
    unsigned committed_products = 0, finished_products = 0;
    bool has_fenced_registers = false;  // by wgmma.fence, since it last waited for all products
    std::unordered_map<uintptr_t, unsigned> written_registers;  // since the last wgmma.fence, by word: the place of the write
    unsigned last_product = 0;          // the place of the warpgroup's last product
    unsigned last_tensor_load = 0;      // and of the thread's last tcgen05.ld
    std::shared_ptr<const View> at_tensor_operation;  // its view when it issued its last tcgen05.mma or tcgen05.cp
    std::vector<PendingRegisters> pending_registers;
    bool in_asynchronous_statement = false;
    std::vector<Executed> aligned;  // since the warp last met
};

struct TensorCells;  // race_tensor_memory.h

struct BlockState {
    unsigned number;
    std::vector<ThreadState> threads;
    std::shared_ptr<TensorCells> tensor_cells;  // null until the block uses tensor memory
};

/// An object at which threads meet. It collects the knowledge of the arriving threads, and their knowledge at their last
/// fences, which their later atomics pass on.
struct Meeting {
    View gathered, completed;
    View fences_gathered[scopes], fences_completed[scopes];  // by the fences' scope
};

inline Shadow shadow;
inline std::unordered_map<const void*, Meeting> meetings;
/// What atomic operations on a word have passed on: to all threads, and to those of a block or a cluster.
struct Passed {
    View to_all;
    std::unordered_map<unsigned, View> to_block, to_cluster;  // by number
};
inline std::unordered_map<const void*, Passed> atomics;
inline unsigned launches = 0;

/// A launch's dimensions. It may run at the same time as earlier ones, from `first_concurrent` on, until a thread has
/// waited for them. Launch 0 is the one before the checker's first, which nobody has seen.
struct LaunchState {
    dim3 grid, block;
    uint3 cluster;
    unsigned first_concurrent;
};
inline std::vector<LaunchState> launch_states;  // by number, from 1

inline uint3 index_of_block(const LaunchState& launch, unsigned number) {
    return {number % launch.grid.x, number / launch.grid.x % launch.grid.y, number / launch.grid.x / launch.grid.y};
}

/// Returns the number of a block's cluster. In a launch without clusters, each block is a cluster.
inline unsigned cluster_of(unsigned launch, unsigned block) {
    const LaunchState& state = launch_states[launch - 1];
    const uint3 index = index_of_block(state, block), dims = state.cluster;
    const unsigned width = state.grid.x / dims.x, height = state.grid.y / dims.y;
    return (index.z / dims.z * height + index.y / dims.y) * width + index.x / dims.x;
}

inline BlockState& state_of(const Block& block) { return *static_cast<BlockState*>(block.race_state); }
inline ThreadState& state_of(const Thread& thread) { return state_of(*thread.block).threads[thread.linear]; }

inline unsigned calling_place(const ThreadState& state) {
    return state.calls.empty() ? check::Places::root : state.calls.back();
}

inline Access access_of(const Thread& thread, Kind kind, unsigned where) {
    const unsigned clock = state_of(thread).knows.clock_of(thread.linear);
    return {launches, state_of(*thread.block).number, clock, where, static_cast<unsigned short>(thread.linear), kind};
}

/// Returns whether a launch ended before the present one began.
inline bool is_over(unsigned launch) { return launch < launch_states[launches - 1].first_concurrent; }

/// Returns whether a thread knows that an access is over, because it made the access or has learned of it from other
/// threads.
inline bool is_before(const Access& earlier, const Thread& thread) {
    if (earlier.launch != launches) return is_over(earlier.launch) || state_of(thread).knows_previous_launches;
    if (earlier.block == state_of(*thread.block).number && earlier.thread == thread.linear) return true;
    return state_of(thread).knows.includes(earlier.block, earlier.thread, earlier.clock);
}

/// Returns whether a thread would know that an access is over if it executed a fence first.
inline bool is_before_but_for_fence(const Access& earlier, const Thread& thread) {
    return state_of(thread).unfenced.includes(earlier.block, earlier.thread, earlier.clock);
}

inline bool is_global(check::Space space) { return space == check::Space::tensor || space == check::Space::variable; }

/// Returns whether the async proxy sees a write that the thread knows is over.
inline bool is_seen_by_async(const Access& earlier, const Thread& thread, check::Space space) {
    if (earlier.launch != launches) return true;
    return state_of(thread).seen_by_async[is_global(space)].includes(earlier.block, earlier.thread, earlier.clock);
}

/// Returns whether the writer itself has executed the fence. The PTX ISA accepts any fence on the path from the write to the
/// operation. The CUDA C++ Programming Guide asks for the writers' own ("Using TMA to transfer one-dimensional arrays").
inline bool is_fenced_by_writer(const Access& earlier, const Thread& thread, check::Space space) {
    if (earlier.launch != launches) return true;
    return state_of(thread).fenced_by_writer[is_global(space)].includes(earlier.block, earlier.thread, earlier.clock);
}

}  // namespace tkjit::sim::race
