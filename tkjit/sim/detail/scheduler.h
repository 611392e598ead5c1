// Waiting: a CUDA thread stops, and the scheduler (runtime/scheduler.h) runs others of its block.
#pragma once

namespace tkjit::sim {

/// Stops the running thread until somebody has pushed it to the ready queue and its turn comes.
void wait_in(Operation operation, Site site);

void push_ready(Block& block, Thread& thread);

/// Lets every other ready thread of the block run once, and starts one more if there is one to start. Leaves a launch
/// that has failed elsewhere: what this thread waits for may never come.
void yield();

/// For loops that wait for something the scheduler does not know of: a lock, a flag.
void yield_in_spin(Site site);

/// A thread's wait for a condition that another one of its block makes hold; a deadlock is reported when the block's
/// progress count stands still while everybody was asked several times.
class Poll {
  public:
    Poll(Operation operation, Site site);
    /// Lets the others run; the condition did not hold.
    void again();

  private:
    Operation operation_;
    Site site_;
    unsigned long long progress_;
    int vain_polls_ = 0;
};

/// Waits until `condition()` holds, where another thread of the same block makes it hold.
template <class Condition>
void wait_until(Condition condition, Site site = Site::here()) {
    if (condition()) return;
    Poll poll(Operation::poll, site);
    do poll.again();
    while (!condition());
}

}  // namespace tkjit::sim
