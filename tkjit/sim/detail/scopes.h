// Tells the race detector about atomic operations while they run: that their scope is a block, or that they are a
// compare-and-swap, with which a kernel takes a lock.
#pragma once

namespace tkjit::sim {

#ifdef TKJIT_SIM_RACE
namespace race {
void set_block_scope(bool begins);
void set_swap(bool begins);
}  // namespace race

struct BlockScope {
    BlockScope() { race::set_block_scope(true); }
    ~BlockScope() { race::set_block_scope(false); }
};
struct Swap {
    Swap() { race::set_swap(true); }
    ~Swap() { race::set_swap(false); }
};
#else
struct BlockScope {};
struct Swap {};
#endif

}  // namespace tkjit::sim
