// Loads and stores with cache hints, and also fences, clocks and __nanosleep.
#pragma once

#include "atomics.h"
#include "block.h"
#include "scheduler.h"
#include "site.h"

#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define TKJIT_SIM_LOAD(name)          \
    template <class T>                \
    inline T name(const T* address) { \
        return *address;              \
    }
TKJIT_SIM_LOAD(__ldg)
TKJIT_SIM_LOAD(__ldca)
TKJIT_SIM_LOAD(__ldcg)
TKJIT_SIM_LOAD(__ldcs)
TKJIT_SIM_LOAD(__ldcv)
TKJIT_SIM_LOAD(__ldlu)
#undef TKJIT_SIM_LOAD

#define TKJIT_SIM_STORE(name)                                                   \
    template <class T>                                                          \
    inline void name(T* address, typename tkjit::sim::Exactly<T>::type value) { \
        *address = value;                                                       \
    }
TKJIT_SIM_STORE(__stwb)
TKJIT_SIM_STORE(__stcg)
TKJIT_SIM_STORE(__stcs)
TKJIT_SIM_STORE(__stwt)
#undef TKJIT_SIM_STORE

inline void __threadfence_block() { __atomic_signal_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_system() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }

inline long long clock64() {
#if defined(__x86_64__)
    return static_cast<long long>(__builtin_ia32_rdtsc());
#else
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ll + now.tv_nsec;
#endif
}

/// While a thread sleeps, other threads of its block run, and so do other OS threads, because the thread may be waiting
/// for the blocks that they run.
inline void __nanosleep(unsigned, tkjit::sim::Site site = tkjit::sim::Site::here()) {
    tkjit::sim::yield_in_spin(site);
    sched_yield();
}
