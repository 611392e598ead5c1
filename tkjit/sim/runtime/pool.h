// The memory that is kept from launch to launch. All of a process's launchers share one pool, because launches often
// alternate between them.
#pragma once

#include <tkjit/sim_pool.h>

namespace tkjit::sim {
inline Pool own_pool;
}

/// Set by the code that opens the launcher.
extern "C" {
__attribute__((visibility("default"))) tkjit::sim::Pool* tkjit_sim_pool = &tkjit::sim::own_pool;
}

namespace tkjit::sim {
inline Pool& pool() { return *__atomic_load_n(&tkjit_sim_pool, __ATOMIC_ACQUIRE); }
}  // namespace tkjit::sim
