// What the primitives of a block have in common.
#pragma once

#include "../util_type.cuh"
#include "logical_warp.cuh"

namespace cub::detail {

/// A primitive for blocks of X x Y x Z threads with its part of shared memory.
///
/// `site` is the user's line that made it, where its barriers are said to be.
template <class Storage, int X, int Y, int Z>
class BlockPrimitive {
  public:
    struct TempStorage : Uninitialized<Storage> {};

  protected:
    static constexpr int block_threads = X * Y * Z;
    static constexpr int block_warps = (block_threads + 31) / 32;

    explicit BlockPrimitive(Site site) : BlockPrimitive(own_storage(), site) {}
    BlockPrimitive(TempStorage& temp, Site site) : storage(temp.Alias()), rank(RowMajorTid(X, Y, Z)), site(site) {
        if (rank >= block_threads) {
            tkjit::sim::fail(site, "a primitive of CUB for %d x %d x %d threads is called by thread %d of its block", X, Y,
                             Z, rank);
        }
    }

    void sync() const { tkjit::sim::sync_threads(site); }

    Storage& storage;
    const int rank;
    const Site site;

  private:
    /// Of those that are given no storage: one for all objects of the type, as in CUB.
    static TempStorage& own_storage() {
        __shared__ TempStorage storage;
        return storage;
    }
};

/// Nothing, for primitives that need no shared memory.
struct NoStorage {};

}  // namespace cub::detail
