// What a launch on the CPU keeps for the next one. Whoever opens launchers gives all of them one, else each has its own.
#pragma once

#include <stdint.h>

namespace tkjit::sim {

struct Block;

struct Pool {
    static constexpr unsigned most_idle = 64;
    Block* idle[most_idle];  // or null: slots, each taken and filled by one exchange
    uint32_t stacks;         // that are mapped, of idle blocks and of others
};

}  // namespace tkjit::sim
