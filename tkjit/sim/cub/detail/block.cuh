// The base of a block's primitives.
#pragma once

#include "../util_type.cuh"
#include "logical_warp.cuh"

namespace cub::detail {

/// A primitive for blocks of X x Y x Z threads with its part of shared memory.
///
/// `site` is the user's line that constructs the primitive. Error messages about the primitive's barriers name that
/// line.
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
            tkjit::sim::fail(site, "a CUB primitive for %d x %d x %d threads is called by thread %d of a larger block",
                             X, Y, Z, rank);
        }
    }

    void sync() const { tkjit::sim::sync_threads(site); }

    Storage& storage;
    const int rank;
    const Site site;

  private:
    /// The storage of primitives that are constructed without one. All objects of the type share it, as in CUB.
    static TempStorage& own_storage() {
        __shared__ TempStorage storage;
        return storage;
    }
};

/// The storage of primitives that need no shared memory.
struct NoStorage {};

}  // namespace cub::detail
