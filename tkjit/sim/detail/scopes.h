// Tells the race detector about atomic operations and fences while they run: their scope, and that an operation is a
// compare-and-swap, with which a kernel takes a lock.
#pragma once

#include "block.h"

namespace tkjit::sim {

enum class Scope : unsigned char { block, cluster, device };

/// Returns whether a scope is the block. In a launch without clusters, each block is a cluster.
inline bool is_block(Scope scope) {
    return scope == Scope::block || (scope == Scope::cluster && current_block->cluster->count == 1);
}

#ifdef TKJIT_SIM_RACE
namespace race {
void set_scope(Scope scope);
void set_swap(bool begins);
}  // namespace race

struct InScope {
    explicit InScope(Scope scope) { race::set_scope(is_block(scope) ? Scope::block : scope); }
    ~InScope() { race::set_scope(Scope::device); }
};
struct Swap {
    Swap() { race::set_swap(true); }
    ~Swap() { race::set_swap(false); }
};
#else
struct InScope {
    explicit InScope(Scope) {}
};
struct Swap {};
#endif

}  // namespace tkjit::sim
