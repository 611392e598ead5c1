// Blocks spread over OS threads.
//
// No pool of threads outlives a launch: many shared objects, each with its own copy of this code, live in one process,
// and a pool would not survive fork(). The caller starts alone, and helpers are created once the launch has already
// run for as long as creating them takes; so a small launch never pays for them and a large one loses nothing.
#pragma once

#include "../check/race.h"
#include "../detail/block.h"
#include "../detail/language.h"
#include "../detail/launch.h"
#include "../detail/scheduler.h"
#include "../detail/site.h"
#include "../detail/vector_types.h"
#include "blocks.h"
#include "fault.h"
#include "grid.h"
#include "hardware_faults.h"
#include "interruption.h"
#include "launch_state.h"
#include "parked_blocks.h"
#include "schedule.h"
#include "scheduler.h"
#include "signal_line.h"
#include "signals.h"

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

#include <utility>

/// Called by the thread that launched, now and then, on its own stack. Set by whoever opens the launcher.
extern "C" {
__attribute__((visibility("default"))) tkjit::sim::Judge tkjit_sim_judge = nullptr;
}

namespace tkjit::sim {

inline constexpr unsigned max_grid_y_or_z = 65535;
inline constexpr unsigned events_per_tick = 64;
inline constexpr unsigned events_per_early_tick = 8;  // while helpers may still be wanted: few, long threads count too
inline constexpr long long helper_creation_ns = 100000;  // of the first one, in a young process
inline constexpr long long interruption_ns = 50'000'000;
inline constexpr long long longest_turn_ns = 5'000'000;  // of a block, while others are parked on its OS thread
inline constexpr long long patience_ns = 5'000'000'000;  // with blocks that do nothing but wait
inline constexpr long long long_launch_ns = 10'000'000'000;  // after which a launch is told

inline int requested_workers = 0;
inline bool has_said_long = false;

void set_workers(int workers) { __atomic_store_n(&requested_workers, workers, __ATOMIC_RELAXED); }

inline int worker_limit() {
    const int requested = __atomic_load_n(&requested_workers, __ATOMIC_RELAXED);
    if (requested > 0) return requested;
    cpu_set_t available;
    return sched_getaffinity(0, sizeof(available), &available) == 0 ? CPU_COUNT(&available) : 1;
}

inline long long now_ns() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ll + now.tv_nsec;
}

void note_change(Launch& launch) { __atomic_store_n(&launch.last_change_ns, now_ns(), __ATOMIC_RELAXED); }

/// It gives its CPU away too: there may be many of them, and one that works.
inline void rest() {
    constexpr timespec nap{0, 1'000'000};
    nanosleep(&nap, nullptr);
}

/// A block of a launch, before it begins; null if there is no memory.
inline Block* prepare_block(Launch& launch, Helpers* helpers, ParkedBlocks& parked) {
    Block* const block = take_idle_block();
    if (block == nullptr || !reserve_window(*block, launch.dynamic_shared_bytes)) {
        put_idle_block(block);
        return nullptr;
    }
    block->launch = &launch;
    block->helpers = helpers;
    block->beside = one_at_a_time || launch.grid_barrier ? nullptr : &parked;
    block->thread_count = launch.block.x * launch.block.y * launch.block.z;
    block->events_until_tick = helpers && !helpers->considered ? events_per_early_tick : events_per_tick;
    return block;
}

inline void put_away(Block* block) {
    if (block) block->launch = nullptr;
    put_idle_block(block);
}

/// Counts a block that begins. An OS thread that has no other may always begin one.
inline bool take_place(Launch& launch, bool has_others) {
    int running = __atomic_load_n(&launch.running, __ATOMIC_RELAXED);
    do {
        if (has_others && running >= most_begun_blocks) return false;
    } while (!__atomic_compare_exchange_n(&launch.running, &running, running + 1, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return true;
}

inline void give_place_back(Launch& launch) {
    __atomic_fetch_sub(&launch.running, 1, __ATOMIC_RELAXED);
    if (__atomic_load_n(&launch.in_vain, __ATOMIC_RELAXED)) note_change(launch);
}

/// The number of the next block, if it may begin on this OS thread.
inline bool take_number(Launch& launch, bool has_others, unsigned long long& number) {
    if (!take_place(launch, has_others)) return false;
    number = __atomic_fetch_add(&launch.next_block, 1ull, __ATOMIC_RELAXED);
    if (number < launch.block_count) return true;
    give_place_back(launch);
    return false;
}

/// Runs blocks of the grid on the calling OS thread until none is left or one has failed. `first` stays the OS thread's.
inline void run_blocks(Launch& launch, Helpers* helpers, ParkedBlocks& parked, Block& first) {
    const BorrowedSignalStack signal_stack(helpers ? nullptr : first.signal_stack);
    Block* next = &first;  // to begin
    bool begins = true;    // in turns with those that wait
    while (!launch_failed(launch)) {
        Block* block = nullptr;
        bool has_ended = false;
        if (parked.is_empty() || (begins && parked.has_room())) {
            if (next == nullptr) next = prepare_block(launch, helpers, parked);
            if (next == nullptr) __atomic_store_n(&launch.lacks_room, 1, __ATOMIC_RELAXED);
            unsigned long long number;
            if (next && take_number(launch, !parked.is_empty(), number)) {
                block = std::exchange(next, nullptr);
                block->turn_start_ns = parked.is_empty() ? 0 : now_ns();
                has_ended = run_block(*block, schedule::block_at(number));
            }
        }
        begins = !begins;
        if (block == nullptr) {
            if (parked.is_empty()) break;
            block = &parked.take();
            block->turn_start_ns = now_ns();
            has_ended = run_on(*block);
        }
        if (!has_ended) {
            parked.put(*block);
            if (parked.have_all_waited(block->turn_in_vain) && !parked.has_room()) rest();
            continue;
        }
        set_in_vain(*block, false);
        give_place_back(launch);
        if (next == nullptr || block == &first) std::swap(block, next);  // `next` is the first, once that has ended
        if (block != &first) put_away(block);
        if (launch.grid_barrier) break;  // each has its own OS thread
    }
    while (!parked.is_empty()) {  // the launch has failed
        Block& block = parked.drop();
        set_in_vain(block, false);
        reset_after_fault(block);
        if (&block != &first) put_away(&block);
    }
    if (next != &first) put_away(next);
}

/// Has the calling OS thread work on a launch; the caller's brings its helpers.
inline void work(Launch& launch, Helpers* helpers) {
    ParkedBlocks parked(launch);
    Block* const block = prepare_block(launch, helpers, parked);
    if (block == nullptr) {
        if (claim_fault(launch)) ErrorText(launch.error_text).append("out of memory for the state of a block");
        return;
    }
    if (launch.grid_barrier) begin_block_of_grid(launch);
    blockDim = launch.block;
    gridDim = launch.grid;
    run_blocks(launch, helpers, parked, *block);
    current_block = nullptr;
    put_away(block);
    if (launch.grid_barrier) end_block_of_grid(*launch.grid_barrier);
}

inline void* help(void* launch) {
    work(*static_cast<Launch*>(launch), nullptr);
    return nullptr;
}

/// While it lives the calling thread creates threads that no signal from outside interrupts: a handler of the program's,
/// a Go runtime's for one, would run on a fiber's stack. Faults stay, and the SIGINT by which whoever judges the launch
/// ends it.
class SignalsBlocked {
  public:
    SignalsBlocked() {
        sigset_t outside;
        sigfillset(&outside);
        const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS};
        for (const int fault : faults) sigdelset(&outside, fault);
        if (tkjit_sim_judge) sigdelset(&outside, SIGINT);
        pthread_sigmask(SIG_BLOCK, &outside, &before_);
    }
    ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    SignalsBlocked(const SignalsBlocked&) = delete;
    SignalsBlocked& operator=(const SignalsBlocked&) = delete;

  private:
    sigset_t before_;
};

/// Creates OS threads; where the system refuses one, the others do its work.
inline void create_threads(Launch& launch, Helpers& helpers, int wanted) {
    helpers.considered = true;
    const SignalsBlocked blocked;
    while (helpers.count < wanted) {
        // Counted first: it may be stopped by a signal before pthread_create returns, but not before that writes its name.
        pthread_t& thread = helpers.threads[helpers.count];
        thread = launch.caller;
        __atomic_store_n(&helpers.count, helpers.count + 1, __ATOMIC_RELEASE);
        if (pthread_create(&thread, nullptr, help, &launch) != 0) {
            __atomic_store_n(&helpers.count, helpers.count - 1, __ATOMIC_RELEASE);
            return;
        }
    }
}

/// Creates as many OS threads as there are blocks and CPUs for.
inline void create_helpers(Launch& launch, Helpers& helpers) {
    const unsigned long long taken = __atomic_load_n(&launch.next_block, __ATOMIC_RELAXED);
    const unsigned long long left = taken < launch.block_count ? launch.block_count - taken : 0;
    int wanted = worker_limit() - 1;
    if (wanted > max_helpers) wanted = max_helpers;
    if (static_cast<unsigned long long>(wanted) > left) wanted = static_cast<int>(left);
    create_threads(launch, helpers, wanted);
}

/// Once of each kernel: it may be large, and it may be a loop without an end. Not in a library that is exported, which nobody
/// judges, and not where the environment asks for no progress, in the words that config.py knows.
inline void say_long() {
    if (tkjit_sim_judge == nullptr || __atomic_exchange_n(&has_said_long, true, __ATOMIC_RELAXED)) return;
    static constexpr const char* yes[] = {"1", "true", "yes", "on"};
    const char* const quiet = getenv("TKJIT_QUIET");
    for (const char* const word : yes)
        if (quiet && strcasecmp(quiet, word) == 0) return;
    SignalLine() << "tkjit: the kernel " << kernel_name() << " has run for 10 s on the CPU; Ctrl-C ends it, and "
                 << "python -m tkjit check FILE.py finds loops without an end";
}

/// Has the others that share the OS thread run, and comes back unless the launch fails.
inline void give_turn(Block& block, bool in_vain) {
    block.turn_in_vain = in_vain;
    block.spins_at_turn = block.vain_spins;
    park(block);
    if (launch_failed(*block.launch)) abandon_block(block);
}

/// Called every so many barriers and exits: leaves a launch that has failed elsewhere, creates helpers, lets the caller
/// be interrupted, and other blocks of the OS thread run.
__attribute__((noinline)) void tick(Block& block) {
    block.events_until_tick = events_per_tick;
    if (launch_failed(*block.launch)) abandon_block(block);
    if (block.turn_start_ns && now_ns() - block.turn_start_ns > longest_turn_ns && block.beside->can_take(block)) {
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

/// Whether an OS thread will begin another block. On a busy machine that may take long.
inline bool more_will_begin(const Launch& launch) {
    return !launch.cooperative && !one_at_a_time && !__atomic_load_n(&launch.lacks_room, __ATOMIC_RELAXED) &&
           __atomic_load_n(&launch.next_block, __ATOMIC_RELAXED) < launch.block_count &&
           __atomic_load_n(&launch.running, __ATOMIC_RELAXED) < most_begun_blocks;
}

/// Whether every block that runs has done nothing but wait for long, has had a turn since anything else happened, and no
/// other will begin.
inline bool all_in_vain(const Launch& launch) {
    const int in_vain = __atomic_load_n(&launch.in_vain, __ATOMIC_RELAXED);
    return in_vain > 0 && in_vain >= __atomic_load_n(&launch.running, __ATOMIC_RELAXED) && !more_will_begin(launch) &&
           now_ns() - __atomic_load_n(&launch.last_change_ns, __ATOMIC_RELAXED) > patience_ns;
}

/// Whether a thread waits for other devices, or has done so not long ago.
inline bool waits_for_devices(const Launch& launch) {
    const long long last_ns = __atomic_load_n(&launch.last_device_turn_ns, __ATOMIC_RELAXED);
    return last_ns != 0 && now_ns() - last_ns < patience_ns;
}

inline bool claim_interruption(Launch& launch) {
    if (tkjit_sim_judge == nullptr) return false;
    const Waits waits = !waits_for_devices(launch) ? Waits::no : all_in_vain(launch) ? Waits::in_vain : Waits::for_devices;
    const Verdict verdict = tkjit_sim_judge(waits);
    __atomic_store_n(&launch.waits_forever, verdict == Verdict::deadlock, __ATOMIC_RELAXED);  // its blocks tell where
    if (verdict != Verdict::interrupted) return false;
    if (claim_fault(launch)) ErrorText(launch.error_text).append("interrupted");
    return true;
}

/// Asked on the host's stack, with the block's threads stopped.
bool is_interrupted(Block& block) {
    if (!claim_interruption(*block.launch)) return false;
    block.abandoned = true;
    return true;
}

/// Whether nothing has happened in the block for so long, and in no other that runs, that a wait will never end. What waits
/// for other devices may be ended by them, unless they wait as well.
inline bool spins_forever(Block& block) {
#ifdef TKJIT_SIM_CHECKED
    return block.vain_spins > 1u << 12;  // one block runs at a time, and the others have had as many turns
#else
    set_in_vain(block, now_ns() - block.spin_start_ns > patience_ns);
    if (!block.spins_in_vain || !all_in_vain(*block.launch)) return false;
    return !waits_for_devices(*block.launch) || __atomic_load_n(&block.launch->waits_forever, __ATOMIC_RELAXED);
#endif
}

/// Gives the OS thread to another block, after a turn in which each of a few threads has asked. If there is none, and it
/// has asked often, the OS thread waits.
inline void wait_for_others(Block& block) {
    constexpr unsigned spins_per_turn = 32, spins_before_rest = 512;
    block.others_may_run = block.beside && block.beside->can_take(block);
    if (block.others_may_run && block.vain_spins % spins_per_turn == 0) {
        give_turn(block, block.vain_spins > block.spins_at_turn);
    } else if (!block.others_may_run && block.vain_spins > spins_before_rest) {
        rest();
    }
}

/// Counts the turns of threads that wait in loops of their own, or for other devices.
void note_spin(Block& block) {
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

/// The OS thread gives way too: what it waits for may run on the same CPU. Every now and then it asks whether to go on.
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
    block.progress++;  // whoever polls for this thread does not do so in vain
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
        text.append("a block of (%u, %u, %u) threads is too large: at most 1024 threads, and (1024, 1024, 64)", block.x,
                    block.y, block.z);
    } else if (grid.x > INT_MAX || grid.y > max_grid_y_or_z || grid.z > max_grid_y_or_z) {
        text.append("a grid of (%u, %u, %u) blocks is too large: at most (2147483647, 65535, 65535)", grid.x, grid.y,
                    grid.z);
    } else if (launch.dynamic_shared_bytes > max_dynamic_shared_bytes) {
        launch.error_code = 1;  // cudaErrorInvalidValue
        text.append("%zu bytes of dynamic shared memory are too many: at most %u", launch.dynamic_shared_bytes,
                    max_dynamic_shared_bytes);
    } else if (launch.cooperative && 1ull * grid.x * grid.y * grid.z > most_cooperative_blocks) {
        launch.error_code = 720;  // cudaErrorCooperativeLaunchTooLarge
        text.append("a cooperative launch of %llu blocks does not fit: at most %u run at once here",
                    1ull * grid.x * grid.y * grid.z, most_cooperative_blocks);
    } else {
        return true;
    }
    return false;
}

/// Waits for the OS threads beside the caller, which may be interrupted meanwhile.
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

const char* launch_body(void (*run_thread)(const void*), const void* body, dim3 grid, dim3 block,
                        size_t dynamic_shared_bytes, bool cooperative) {
    Launch launch{};
    launch.run_thread = run_thread;
    launch.body = body;
    launch.grid = grid;
    launch.block = block;
    launch.dynamic_shared_bytes = dynamic_shared_bytes;
    launch.cooperative = cooperative;
    char error_text[error_text_bytes];  // and no variable of the OS thread, which blocks exchange
    launch.error_text = error_text;
    launch_error_code = 0;
    const auto failed = [&] {
        launch_error_code = launch.error_code;
        return static_cast<const char*>(strcpy(error_text_of_thread, error_text));
    };
    if (!check_launch(launch)) return failed();
    launch.block_count = 1ull * grid.x * grid.y * grid.z;
    schedule::begin_launch(launch.block_count);
    race::begin_launch();

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
            ErrorText(launch.error_text).append("the system refuses an OS thread for each block of a cooperative launch");
        }
    }
    work(launch, &helpers);
    join(launch, helpers);
    return launch.failed ? failed() : nullptr;
}

}  // namespace tkjit::sim
