// Atomic functions. They use real atomics, because several OS threads run blocks at the same time.
#pragma once

#include "block.h"
#include "scheduler.h"
#include "scopes.h"
#include "site.h"
#include "vector_types.h"

namespace tkjit::sim {

// CUDA's atomic functions do not order other accesses. The race detector's build models this. Other builds forgive a
// missing fence, as most GPUs do most of the time.
#ifdef TKJIT_SIM_RACE
inline constexpr int atomic_order = __ATOMIC_RELAXED;
#else
inline constexpr int atomic_order = __ATOMIC_SEQ_CST;
#endif

/// Excludes a parameter from type deduction, so that in atomicAdd(float*, 1) the pointer decides the type.
template <class T>
struct Exactly {
    using type = T;
};

/// Atomically replaces `*address` with `update(*address)`, and returns the old value.
template <class T, class Update>
inline T atomic_update(T* address, Update update) {
    T old, updated;
    __atomic_load(address, &old, __ATOMIC_RELAXED);
    do {
        updated = update(old);
    } while (!__atomic_compare_exchange(address, &old, &updated, true, tkjit::sim::atomic_order, __ATOMIC_RELAXED));
    return old;
}

/// Called by the atomics that loops use for waiting: for a lock (CAS, exchange), or for a flag that is read by adding
/// 0. A fiber is never preempted, so without this call the loop would keep the thread that it waits for from running.
#ifdef TKJIT_SIM_CHECKED
inline constexpr unsigned atomics_before_yield = 64;  // each takes a hundred times as long in these builds
inline constexpr unsigned atomics_in_vain = atomics_before_yield;
#else
inline constexpr unsigned atomics_before_yield = 1024;
inline constexpr unsigned atomics_in_vain = 32;  // used if another block can take the OS thread
#endif
inline bool may_spin() {
    Block* const block = current_block;
    if (block == nullptr || ++block->vain_atomics < (block->others_may_run ? atomics_in_vain : atomics_before_yield)) return false;
    block->vain_atomics = 0;
    return true;
}
inline void note_possible_spin(Site site) {
    if (may_spin()) yield_in_spin(site);
}

/// Like note_possible_spin, but for a load that sees other devices' writes.
inline void note_possible_wait_for_devices(Site site) {
    if (may_spin()) yield_to_devices(site);
}

/// Exchanges 16 bytes in one operation, and returns the old value. The generic builtins would call a library for this
/// width.
template <class T>
inline T compare_and_swap_16(T* address, T expected, T value) {
    unsigned __int128 from, to;
    __builtin_memcpy(&from, &expected, 16);
    __builtin_memcpy(&to, &value, 16);
    from = __sync_val_compare_and_swap(reinterpret_cast<unsigned __int128*>(address), from, to);
    __builtin_memcpy(static_cast<void*>(&expected), &from, 16);
    return expected;
}

}  // namespace tkjit::sim

template <class T>
inline T atomicAdd(T* address, typename tkjit::sim::Exactly<T>::type value,
                   tkjit::sim::Site site = tkjit::sim::Site::here()) {
    if (value == T(0)) tkjit::sim::note_possible_spin(site);
    if constexpr (static_cast<T>(0.5) == static_cast<T>(0)) {  // an integer
        return __atomic_fetch_add(address, value, tkjit::sim::atomic_order);
    } else {
        return tkjit::sim::atomic_update(address, [value](T old) { return old + value; });
    }
}

// Each element is added atomically, but not the vector as a whole.
inline float2 atomicAdd(float2* address, float2 value) {
    return {atomicAdd(&address->x, value.x), atomicAdd(&address->y, value.y)};
}
inline float4 atomicAdd(float4* address, float4 value) {
    return {atomicAdd(&address->x, value.x), atomicAdd(&address->y, value.y), atomicAdd(&address->z, value.z),
            atomicAdd(&address->w, value.w)};
}

template <class T>
inline T atomicSub(T* address, typename tkjit::sim::Exactly<T>::type value) {
    return __atomic_fetch_sub(address, value, tkjit::sim::atomic_order);
}

template <class T>
inline T atomicMin(T* address, typename tkjit::sim::Exactly<T>::type value) {
    return tkjit::sim::atomic_update(address, [value](T old) { return value < old ? value : old; });
}

template <class T>
inline T atomicMax(T* address, typename tkjit::sim::Exactly<T>::type value) {
    return tkjit::sim::atomic_update(address, [value](T old) { return old < value ? value : old; });
}

template <class T>
inline T atomicExch(T* address, typename tkjit::sim::Exactly<T>::type value,
                    tkjit::sim::Site site = tkjit::sim::Site::here()) {
    tkjit::sim::note_possible_spin(site);
    if constexpr (sizeof(T) == 16) {
        for (T seen = *address;;) {
            const T old = tkjit::sim::compare_and_swap_16(address, seen, value);
            if (__builtin_memcmp(&old, &seen, 16) == 0) return old;
            seen = old;
        }
    } else {
        T old;
        __atomic_exchange(address, &value, &old, tkjit::sim::atomic_order);
        return old;
    }
}

template <class T>
inline T atomicCAS(T* address, typename tkjit::sim::Exactly<T>::type expected,
                   typename tkjit::sim::Exactly<T>::type value, tkjit::sim::Site site = tkjit::sim::Site::here()) {
    tkjit::sim::note_possible_spin(site);
    if constexpr (sizeof(T) == 16) {
        return tkjit::sim::compare_and_swap_16(address, expected, value);
    } else {
        constexpr int order = tkjit::sim::atomic_order;
        [[maybe_unused]] const tkjit::sim::Swap swap;
        __atomic_compare_exchange(address, &expected, &value, false, order, order);
        return expected;
    }
}

template <class T>
inline T atomicAnd(T* address, typename tkjit::sim::Exactly<T>::type value) {
    return __atomic_fetch_and(address, value, tkjit::sim::atomic_order);
}

template <class T>
inline T atomicOr(T* address, typename tkjit::sim::Exactly<T>::type value,
                  tkjit::sim::Site site = tkjit::sim::Site::here()) {
    if (value == T(0)) tkjit::sim::note_possible_spin(site);
    return __atomic_fetch_or(address, value, tkjit::sim::atomic_order);
}

template <class T>
inline T atomicXor(T* address, typename tkjit::sim::Exactly<T>::type value) {
    return __atomic_fetch_xor(address, value, tkjit::sim::atomic_order);
}

/// Counts up to `limit`, then wraps to 0.
inline unsigned atomicInc(unsigned* address, unsigned limit) {
    return tkjit::sim::atomic_update(address, [limit](unsigned old) { return old >= limit ? 0 : old + 1; });
}

/// Counts down. From 0, or from above `limit`, wraps to `limit`.
inline unsigned atomicDec(unsigned* address, unsigned limit) {
    return tkjit::sim::atomic_update(address,
                                     [limit](unsigned old) { return old == 0 || old > limit ? limit : old - 1; });
}

// An operation of a block's scope is atomic for the whole process as well; the race detector tells them apart.
#define TKJIT_SIM_ATOMIC_SCOPES(name)                                               \
    template <class T, class... Values>                                             \
    inline T name##_block(T* address, Values... values) {                           \
        [[maybe_unused]] const tkjit::sim::InScope scope(tkjit::sim::Scope::block); \
        return name(address, values...);                                            \
    }                                                                               \
    template <class T, class... Values>                                             \
    inline T name##_system(T* address, Values... values) {                          \
        return name(address, values...);                                            \
    }
TKJIT_SIM_ATOMIC_SCOPES(atomicAdd)
TKJIT_SIM_ATOMIC_SCOPES(atomicSub)
TKJIT_SIM_ATOMIC_SCOPES(atomicMin)
TKJIT_SIM_ATOMIC_SCOPES(atomicMax)
TKJIT_SIM_ATOMIC_SCOPES(atomicExch)
TKJIT_SIM_ATOMIC_SCOPES(atomicCAS)
TKJIT_SIM_ATOMIC_SCOPES(atomicAnd)
TKJIT_SIM_ATOMIC_SCOPES(atomicOr)
TKJIT_SIM_ATOMIC_SCOPES(atomicXor)
TKJIT_SIM_ATOMIC_SCOPES(atomicInc)
TKJIT_SIM_ATOMIC_SCOPES(atomicDec)
#undef TKJIT_SIM_ATOMIC_SCOPES

// nvcc's own atomic functions, whose orders have the same numbers as gcc's.
#define __NV_ATOMIC_RELAXED __ATOMIC_RELAXED
#define __NV_ATOMIC_CONSUME __ATOMIC_CONSUME
#define __NV_ATOMIC_ACQUIRE __ATOMIC_ACQUIRE
#define __NV_ATOMIC_RELEASE __ATOMIC_RELEASE
#define __NV_ATOMIC_ACQ_REL __ATOMIC_ACQ_REL
#define __NV_ATOMIC_SEQ_CST __ATOMIC_SEQ_CST
enum { __NV_THREAD_SCOPE_THREAD, __NV_THREAD_SCOPE_BLOCK, __NV_THREAD_SCOPE_CLUSTER, __NV_THREAD_SCOPE_DEVICE, __NV_THREAD_SCOPE_SYSTEM };

namespace tkjit::sim {
/// Performs an operation with a scope.
template <class Operation>
inline auto in_scope(int scope, Operation operation) {
    const Scope kind = scope > __NV_THREAD_SCOPE_CLUSTER ? Scope::device
                       : scope > __NV_THREAD_SCOPE_BLOCK ? Scope::cluster
                                                         : Scope::block;
    [[maybe_unused]] const InScope held(kind);
    return operation();
}
}  // namespace tkjit::sim

template <class T>
inline T __nv_atomic_load_n(T* address, int order, int scope = __NV_THREAD_SCOPE_SYSTEM,
                            tkjit::sim::Site site = tkjit::sim::Site::here()) {
    tkjit::sim::note_possible_spin(site);
    return tkjit::sim::in_scope(scope, [&] { return __atomic_load_n(address, order); });
}
template <class T>
inline void __nv_atomic_store_n(T* address, typename tkjit::sim::Exactly<T>::type value, int order,
                                int scope = __NV_THREAD_SCOPE_SYSTEM) {
    tkjit::sim::in_scope(scope, [&] { __atomic_store_n(address, value, order); });
}
template <class T>
inline T __nv_atomic_exchange_n(T* address, typename tkjit::sim::Exactly<T>::type value, int order,
                                int scope = __NV_THREAD_SCOPE_SYSTEM,
                                tkjit::sim::Site site = tkjit::sim::Site::here()) {
    tkjit::sim::note_possible_spin(site);
    return tkjit::sim::in_scope(scope, [&] { return __atomic_exchange_n(address, value, order); });
}
template <class T>
inline T __nv_atomic_fetch_add(T* address, typename tkjit::sim::Exactly<T>::type value, int order,
                               int scope = __NV_THREAD_SCOPE_SYSTEM) {
    return tkjit::sim::in_scope(scope, [&] { return __atomic_fetch_add(address, value, order); });
}
