// Tells the race detector about atomic operations while they run: that their scope is a block, or that they are a
// compare-and-swap, with which a kernel takes a lock.
#pragma once

#include "block.h"

namespace tkjit::sim {

enum class Scope { block, cluster, device };

/// Returns whether a scope is the block. In a launch without clusters, each block is a cluster.
inline bool is_block(Scope scope) {
    return scope == Scope::block || (scope == Scope::cluster && current_block->cluster->count == 1);
}

#ifdef TKJIT_SIM_RACE
namespace race {
void set_block_scope(bool begins);
void set_swap(bool begins);
}  // namespace race

struct BlockScope {
    explicit BlockScope(bool applies = true) { race::set_block_scope(applies); }
    ~BlockScope() { race::set_block_scope(false); }
};
struct Swap {
    Swap() { race::set_swap(true); }
    ~Swap() { race::set_swap(false); }
};
#else
struct BlockScope {
    explicit BlockScope(bool = true) {}
};
struct Swap {};
#endif

}  // namespace tkjit::sim
