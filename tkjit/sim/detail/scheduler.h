// Waiting: a CUDA thread stops, and the scheduler (runtime/scheduler.h) runs other threads of its block.
#pragma once

#include "block.h"
#include "site.h"

namespace tkjit::sim {

/// Stops the running thread until another thread has pushed it to the ready queue and its turn has come.
void wait_in(Operation operation, Site site);

void push_ready(Block& block, Thread& thread);

/// Lets every other ready thread of the block run once, and starts one more if any are left to start. If the launch has
/// failed elsewhere, abandons the block, because the event that this thread waits for may never come.
void yield();

/// For loops that wait for another device or process. However long the wait takes, it does not count as a deadlock in
/// this block.
void yield_to_devices(Site site);

/// For loops that poll a lock, a flag or an mbarrier, of which the scheduler knows nothing.
void yield_in_poll(Operation operation, Site site);
inline void yield_in_spin(Site site) { yield_in_poll(Operation::spin, site); }

}  // namespace tkjit::sim
