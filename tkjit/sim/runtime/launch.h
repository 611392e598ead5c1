// A launch: its checks, its blocks' periodic work, and the detection of waits that never end.
#pragma once

#include "../check/race.h"
#include "../detail/block.h"
#include "../detail/language.h"
#include "../detail/launch.h"
#include "../detail/scheduler.h"
#include "../detail/site.h"
#include "../detail/vector_types.h"
#include "fault.h"
#include "cooperative.h"
#include "hardware_faults.h"
#include "interruption.h"
#include "launch_state.h"
#include "schedule.h"
#include "scheduler.h"
#include "signal_line.h"
#include "signals.h"
#include "workers.h"

#include <tkjit/sim_verdict.h>

#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

namespace tkjit::sim {

inline constexpr unsigned max_grid_y_or_z = 65535;
inline constexpr long long helper_creation_ns = 100000;  // for the first helper in a new process
inline constexpr long long interruption_ns = 50'000'000;
inline constexpr long long longest_turn_ns = 5'000'000;  // of a block, while others are parked on its OS thread
inline constexpr long long long_launch_ns = 10'000'000'000;  // after which a launch prints a notice

inline bool has_said_long = false;

/// Prints a notice, once per kernel, because the launch may be either large or an endless loop. An exported library,
/// which has no judge, prints no notice, and neither does a process with TKJIT_QUIET set to a word that config.py
/// knows.
inline void say_long() {
    if (tkjit_sim_judge == nullptr || __atomic_exchange_n(&has_said_long, true, __ATOMIC_RELAXED)) return;
    static constexpr const char* yes[] = {"1", "true", "yes", "on"};
    const char* const quiet = getenv("TKJIT_QUIET");
    for (const char* const word : yes)
        if (quiet && strcasecmp(quiet, word) == 0) return;
    SignalLine() << "tkjit: the kernel " << kernel_name() << " has run for 10 s on the CPU; Ctrl-C ends it, and "
                 << "python -m tkjit check FILE.py finds endless loops";
}

/// Lets the other blocks on the OS thread run, and returns unless the launch fails.
inline void give_turn(Block& block, bool in_vain) {
    block.turn_in_vain = in_vain;
    block.spins_at_turn = block.vain_spins;
    park(block);
    if (launch_failed(*block.launch)) abandon_block(block);
}

/// Called once every so many barriers and exits. Leaves a launch that has failed elsewhere, lets other blocks on the OS
/// thread run, creates helpers, and checks whether the caller has been interrupted.
__attribute__((noinline)) void tick(Block& block) {
    block.events_until_tick = events_per_tick;
    if (launch_failed(*block.launch)) abandon_block(block);
    if (block.beside && block.turn_start_ns && now_ns() - block.turn_start_ns > longest_turn_ns && block.beside->can_take(block)) {
        give_turn(block, false);
    }
    Helpers* helpers = block.helpers;
    if (helpers == nullptr) return;
    block.launch->ticks++;
    const long long now = now_ns();
    if (!helpers->considered) {
        if (now - helpers->start_ns > helper_creation_ns) {
            create_helpers(*block.launch, *helpers);
        } else {
            block.events_until_tick = events_per_early_tick;
        }
    }
    if (now - helpers->asked_ns > interruption_ns) {
        helpers->asked_ns = now;
        if (!one_at_a_time && now - helpers->start_ns > long_launch_ns) say_long();
        visit_host(block);
    }
}

/// Returns whether a thread is waiting for other devices, or did so recently.
inline bool waits_for_devices(const Launch& launch) {
    const long long last_ns = __atomic_load_n(&launch.last_device_turn_ns, __ATOMIC_RELAXED);
    return last_ns != 0 && now_ns() - last_ns < patience_ns;
}

inline bool claim_interruption(Launch& launch) {
    if (tkjit_sim_judge == nullptr) return false;
    const Waits waits = !waits_for_devices(launch) ? Waits::no : all_in_vain(launch) ? Waits::in_vain : Waits::for_devices;
    const Verdict verdict = tkjit_sim_judge(waits);
    // if it is a deadlock, the launch's blocks report where they wait
    __atomic_store_n(&launch.waits_forever, verdict == Verdict::deadlock, __ATOMIC_RELAXED);
    if (verdict != Verdict::interrupted) return false;
    if (claim_fault(launch)) ErrorText(launch.error_text).append("interrupted");
    return true;
}

/// Called on the host's stack, with the block's threads stopped.
bool is_interrupted(Block& block) {
    if (!claim_interruption(*block.launch)) return false;
    block.abandoned = true;
    return true;
}

/// Returns whether a wait will never end, because nothing has happened for a long time in this block or in any other
/// running block. Other devices may still end a wait for them, unless they are waiting as well.
inline bool spins_forever(Block& block) {
#ifdef TKJIT_SIM_CHECKED
    return block.vain_spins > 1u << 12;  // one block runs at a time, and the others have had as many turns
#else
    set_in_vain(block, now_ns() - block.spin_start_ns > patience_ns);
    if (!block.spins_in_vain || !all_in_vain(*block.launch)) return false;
    return !waits_for_devices(*block.launch) || __atomic_load_n(&block.launch->waits_forever, __ATOMIC_RELAXED);
#endif
}

/// Gives the OS thread to another block, after a turn in which a few threads have each polled. If there is no other
/// block and this one has polled often, the OS thread sleeps.
inline void wait_for_others(Block& block) {
    constexpr unsigned spins_per_turn = 32, spins_before_rest = 512;
    block.others_may_run = block.beside && block.beside->can_take(block);
    if (block.others_may_run && block.vain_spins % spins_per_turn == 0) {
        give_turn(block, block.vain_spins > block.spins_at_turn);
    } else if (!block.others_may_run && block.vain_spins > spins_before_rest) {
        rest();
    }
}

/// Gives the cluster's other blocks a turn after a few unsuccessful polls.
inline void note_spin_in_cluster(Block& block) {
    constexpr unsigned spins_per_turn = 8;
    const unsigned long long progress = block.progress - block.device_turns;
    if (block.spin_progress != progress) {
        block.spin_progress = progress;
        block.vain_spins = 0;
    }
    if (++block.vain_spins % spins_per_turn || block.started < block.thread_count) return;
    if (block.cluster->is_stuck) fail_deadlock(block);
    tick(block);
    block.polls_cluster = true;
    park(block);
    block.polls_cluster = false;
    if (launch_failed(*block.launch)) abandon_block(block);
}

/// Counts how often threads get a turn while they wait in their own loops or for other devices.
void note_spin(Block& block) {
    if (block.cluster->count > 1) return note_spin_in_cluster(block);
    constexpr unsigned spins_per_check = one_at_a_time ? 16 : 256;
    const unsigned long long progress = block.progress - block.device_turns;
    if (block.spin_progress != progress) {
        block.spin_progress = progress;
        block.vain_spins = 0;
        block.others_may_run = false;
    }
    if (!one_at_a_time && block.vain_spins > 0) wait_for_others(block);
    if (++block.vain_spins % spins_per_check) return;
    if (block.vain_spins == spins_per_check) block.spin_start_ns = now_ns();
    pass_on(block);
    tick(block);
    if (spins_forever(block)) fail_deadlock(block);
}

/// Lets the block's other threads run, and yields the OS thread, because the other device may be running on the same
/// CPU. From time to time, checks whether to continue.
__attribute__((noinline)) void yield_to_devices(Site site) {
    constexpr unsigned turns_before_sleep = 64;
    constexpr timespec nap{0, 50'000};
    Thread& thread = *current_thread;
    Block& block = *thread.block;
    thread.waiting_in = Operation::device_barrier;
    thread.site = site;
    if (block.device_turns % turns_before_sleep == 0) {
        __atomic_store_n(&block.launch->last_device_turn_ns, now_ns(), __ATOMIC_RELAXED);
    }
    block.progress++;  // this counts as progress, so threads that poll for this one go on polling
    const bool is_alone = block.beside == nullptr || block.beside->is_empty();
    if (++block.device_turns % turns_before_sleep) {
        if (is_alone) sched_yield();
    } else if (is_alone) {
        nanosleep(&nap, nullptr);
    }
    tick(block);
    note_spin(block);
    yield();
    thread.waiting_in = Operation::none;
}

inline bool check_launch(Launch& launch) {
    const uint3 grid = launch.grid, block = launch.block;
    ErrorText text(launch.error_text);
    if (grid.x == 0 || grid.y == 0 || grid.z == 0 || block.x == 0 || block.y == 0 || block.z == 0) {
        text.append("a grid of (%u, %u, %u) blocks of (%u, %u, %u) threads is empty", grid.x, grid.y, grid.z, block.x,
                    block.y, block.z);
    } else if (block.x > 1024 || block.y > 1024 || block.z > 64 ||
               1ull * block.x * block.y * block.z > max_threads_per_block) {
        text.append("a block of (%u, %u, %u) threads is too large: at most 1024 threads, and at most (1024, 1024, 64) of them along x, y and z", block.x,
                    block.y, block.z);
    } else if (grid.x > INT_MAX || grid.y > max_grid_y_or_z || grid.z > max_grid_y_or_z) {
        text.append("a grid of (%u, %u, %u) blocks is too large: at most (2147483647, 65535, 65535) along x, y and z", grid.x, grid.y,
                    grid.z);
    } else if (launch.dynamic_shared_bytes > max_dynamic_shared_bytes) {
        launch.error_code = 1;  // cudaErrorInvalidValue
        text.append("%zu bytes of dynamic shared memory are too many: at most %u", launch.dynamic_shared_bytes,
                    max_dynamic_shared_bytes);
    } else if (is_several(launch.cluster) && launch.cooperative) {
        text.append("the simulator has no cooperative launches with clusters");
    } else if (launch.cluster.x - 1 >= most_cluster_blocks || launch.cluster.y - 1 >= most_cluster_blocks ||
               launch.cluster.z - 1 >= most_cluster_blocks ||
               launch.cluster.x * launch.cluster.y * launch.cluster.z > most_cluster_blocks) {
        text.append("a cluster of (%u, %u, %u) blocks is empty or too large: at most %u blocks", launch.cluster.x, launch.cluster.y,
                    launch.cluster.z, most_cluster_blocks);
    } else if (grid.x % launch.cluster.x || grid.y % launch.cluster.y || grid.z % launch.cluster.z) {
        text.append("a grid of (%u, %u, %u) blocks does not consist of clusters of (%u, %u, %u) blocks", grid.x, grid.y,
                    grid.z, launch.cluster.x, launch.cluster.y, launch.cluster.z);
    } else if (launch.cooperative && 1ull * grid.x * grid.y * grid.z > most_cooperative_blocks) {
        launch.error_code = 720;  // cudaErrorCooperativeLaunchTooLarge
        text.append("a cooperative launch of %llu blocks does not fit: at most %u run at once here",
                    1ull * grid.x * grid.y * grid.z, most_cooperative_blocks);
    } else {
        return true;
    }
    return false;
}

/// Waits for the other OS threads. Meanwhile, the caller may be interrupted.
inline void join(Launch& launch, Helpers& helpers) {
    for (int i = 0; i < helpers.count; i++) {
        for (;;) {
            timespec until;
            clock_gettime(CLOCK_REALTIME, &until);
            until.tv_nsec += interruption_ns;
            if (until.tv_nsec >= 1'000'000'000) until.tv_sec++, until.tv_nsec -= 1'000'000'000;
            if (pthread_timedjoin_np(helpers.threads[i], nullptr, &until) == 0) break;
            claim_interruption(launch);
            launch.ticks++;
        }
        helpers.joined = i + 1;
    }
}

TKJIT_SIM_REGISTER char error_text_of_thread[error_text_bytes];
TKJIT_SIM_REGISTER int launch_error_code;

const char* launch_body(void (*run)(const void* body), const void* body, dim3 grid, dim3 block,
                        size_t dynamic_shared_bytes, LaunchMode mode) {
    const bool cooperative = mode.cooperative;
    Launch launch{};
    launch.run = run;
    launch.body = body;
    launch.grid = grid;
    launch.block = block;
    launch.dynamic_shared_bytes = dynamic_shared_bytes;
    launch.cooperative = cooperative;
    launch.cluster = mode.cluster;
    char error_text[error_text_bytes];  // not thread-local, because parked blocks swap thread-local variables
    launch.error_text = error_text;
    launch_error_code = 0;
    const auto failed = [&] {
        launch_error_code = launch.error_code;
        return static_cast<const char*>(strcpy(error_text_of_thread, error_text));
    };
    if (!check_launch(launch)) return failed();
    launch.block_count = 1ull * grid.x * grid.y * grid.z / (launch.cluster.x * launch.cluster.y * launch.cluster.z);
    schedule::begin_launch(launch.block_count);
#ifdef TKJIT_SIM_OVERFLOW  // only one block runs
    schedule::launches++;
    launch.next_block = schedule::runs_last_block ? launch.block_count - 1 : launch.block_count / 2;
    launch.block_count = launch.next_block + 1;
#endif
    race::begin_launch(grid, block, mode.cluster, mode.is_dependent);

    Helpers helpers;  // not cleared: its array of threads is large
    helpers.start_ns = helpers.asked_ns = now_ns();
    watch_signals(helpers.start_ns);
    helpers.considered = launch.block_count == 1 || cooperative || one_at_a_time;
    helpers.count = helpers.joined = 0;
    launch.caller = pthread_self();
    launch.helpers = &helpers;
    launch.ticks_at_interruption = ~0u;
    const ActiveLaunch active(launch);
    Grid all{PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, unsigned(launch.block_count), 0, 0, 0, 0, 0, 0};
    if (cooperative) {
        launch.grid_barrier = &all;
        create_threads(launch, helpers, static_cast<int>(launch.block_count) - 1);
        if (helpers.count + 1ull < launch.block_count && claim_fault(launch)) {
            ErrorText(launch.error_text)
                .append("the system cannot create an OS thread for each block of a cooperative launch");
        }
    }
    work(launch, &helpers);
    join(launch, helpers);
    return launch.failed ? failed() : nullptr;
}

}  // namespace tkjit::sim
