// Handles a second Ctrl-C, for a kernel that never reaches a point where interruptions are checked, for example because
// it loops without calling the simulator. The first Ctrl-C is checked at the next barrier or exit. If another one
// arrives and no check has happened in between, the block is abandoned where the signal interrupted it.
#pragma once

#include "../detail/block.h"
#include "fault.h"
#include "fiber.h"
#include "launch_state.h"
#include "lines.h"
#include "signal_line.h"

#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>

namespace tkjit::sim {

inline constexpr unsigned most_active_launches = 64;
inline Launch* active_launches[most_active_launches];

/// Makes a launch visible to signal handlers while it is running.
class ActiveLaunch {
  public:
    explicit ActiveLaunch(Launch& launch) {
        for (Launch*& slot : active_launches) {
            Launch* empty = nullptr;
            if (!__atomic_compare_exchange_n(&slot, &empty, &launch, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) continue;
            slot_ = &slot;
            return;
        }
    }
    ~ActiveLaunch() {
        if (slot_) __atomic_store_n(slot_, static_cast<Launch*>(nullptr), __ATOMIC_RELEASE);
    }
    ActiveLaunch(const ActiveLaunch&) = delete;
    ActiveLaunch& operator=(const ActiveLaunch&) = delete;

  private:
    Launch** slot_ = nullptr;
};

/// Leaves the block that the calling OS thread runs, provided that the signal interrupted the kernel's own code. A
/// library's code might hold a lock, and on the host's own stack there is no fiber to leave. The first thread that
/// leaves prints where it was. It may allocate and run addr2line, because only kernel code is interrupted.
inline void leave_kernel(Launch& launch, uintptr_t instruction, uintptr_t stack_pointer) {
    if (current_thread == nullptr || current_block == nullptr) return;
    const auto lowest = reinterpret_cast<uintptr_t>(current_thread.first_of_row()->stack->lowest);
    const bool in_fiber = stack_pointer - lowest < stack_bytes;
    if (!in_fiber || !in_own_code(instruction)) return;
    if (__atomic_exchange_n(&launch.has_said_where, 1, __ATOMIC_RELAXED) == 0) {
        char place[1024];
        find_line(instruction, place, sizeof place);
        SignalLine() << "tkjit: the kernel " << kernel_name() << " was in block " << blockIdx << ", thread "
                     << threadIdx << (place[0] ? ", at " : "") << place;
    }
    abandon_block(*current_block);
}

}  // namespace tkjit::sim

/// Called by the interruption's signal handler, in the thread that received the signal.
extern "C" __attribute__((visibility("default"))) void tkjit_sim_give_up(uintptr_t instruction, uintptr_t stack_pointer) {
    using namespace tkjit::sim;
    for (Launch*& slot : active_launches) {
        Launch* const launch = __atomic_load_n(&slot, __ATOMIC_ACQUIRE);
        if (launch == nullptr) continue;
        Helpers& helpers = *launch->helpers;
        if (!pthread_equal(launch->caller, pthread_self())) {
            for (int i = helpers.joined; i < helpers.count; i++) {
                const bool is_own = pthread_equal(helpers.threads[i], pthread_self());
                if (is_own && launch_failed(*launch)) leave_kernel(*launch, instruction, stack_pointer);
            }
            continue;
        }
        if (!launch_failed(*launch) && launch->ticks_at_interruption != launch->ticks) {
            launch->ticks_at_interruption = launch->ticks;
            SignalLine() << "tkjit: if the kernel " << kernel_name() << " does not end now, a second Ctrl-C ends it";
            continue;
        }
        if (claim_fault(*launch)) memcpy(launch->error_text, "interrupted", sizeof("interrupted"));
        for (int i = helpers.joined; i < helpers.count; i++) {
            const bool is_created = !pthread_equal(helpers.threads[i], launch->caller);
            if (is_created) pthread_kill(helpers.threads[i], SIGINT);
        }
        leave_kernel(*launch, instruction, stack_pointer);
    }
}
