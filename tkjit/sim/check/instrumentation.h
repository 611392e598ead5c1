// The functions that gcc and clang call at each access under -fsanitize=thread. They replace the compiler's runtime
// library, which is not linked. So the checker needs nothing but the compiler, understands CUDA threads, barriers and
// shared memory, and works wherever the process's memory is mapped.
//
// Source of the interface: gcc/sanitizer.def and compiler-rt's tsan_interface.h.
#pragma once

#include "../detail/atomics.h"
#include "../detail/block.h"
#include "places.h"
#include "race.h"
#include "race_accesses.h"
#include "race_detector.h"
#include "race_state.h"
#include "regions.h"
#include "shadow.h"

#include <stddef.h>
#include <stdint.h>

namespace tkjit::sim::race {

/// Returns an address within the calling instruction, not after it.
inline uintptr_t before(void* return_address) { return reinterpret_cast<uintptr_t>(return_address) - 1; }

inline unsigned place_before(void* return_address) {
    return places.at(calling_place(state_of(*current_thread)), before(return_address));
}

/// Returns whether an access is made by a kernel, to memory that threads share.
inline bool concerns(const void* address) {
    return current_thread && check::region_of(reinterpret_cast<uintptr_t>(address));
}

inline void note_read(const void* address, size_t bytes, void* return_address) {
    if (concerns(address)) access(address, bytes, false, true, plain, place_before(return_address));
}
inline void note_write(const void* address, size_t bytes, void* return_address) {
    if (concerns(address)) access(address, bytes, true, false, plain, place_before(return_address));
}

inline void note_atomic(const volatile void* pointer, size_t bytes, bool reads, bool writes, int order,
                        void* return_address, Kind kind = atomic) {
    const void* const address = const_cast<const void*>(pointer);
    if (!concerns(address)) return;
    const bool releases = (order & 0xffff) >= __ATOMIC_RELEASE;
    atomic_access(address, bytes, writes, reads, releases, kind, place_before(return_address));
}
inline void note_load(const volatile void* address, size_t bytes, int order, void* return_address) {
    note_atomic(address, bytes, true, false, order, return_address);
}
inline void note_store(const volatile void* address, size_t bytes, int order, void* return_address) {
    note_atomic(address, bytes, false, true, order, return_address);
}
inline void note_update(const volatile void* address, size_t bytes, int order, void* return_address) {
    note_atomic(address, bytes, true, true, order, return_address);
}

// Kernels wait for flags with volatile accesses. These count as atomics without an order, and let other threads run.
inline Kind kind_of_volatile = volatile_access;  // or `atomic`, which trusts that the hardware performs them atomically

inline void note_volatile_read(const void* address, size_t bytes, void* return_address) {
    if (!concerns(address)) return;
    note_possible_spin({"a volatile variable", 0});
    note_atomic(address, bytes, true, false, __ATOMIC_RELAXED, return_address, kind_of_volatile);
}
inline void note_volatile_write(const void* address, size_t bytes, void* return_address) {
    note_atomic(address, bytes, false, true, __ATOMIC_RELAXED, return_address, kind_of_volatile);
}

}  // namespace tkjit::sim::race

#define TKJIT_HERE __builtin_return_address(0)
#define TKJIT_TSAN extern "C" __attribute__((noinline, visibility("hidden")))

TKJIT_TSAN void __tsan_init() {}
TKJIT_TSAN void __tsan_func_entry(void* return_address) {
    using namespace tkjit::sim;
    if (current_thread) race::state_of(*current_thread).calls.push_back(race::place_before(return_address));
}
TKJIT_TSAN void __tsan_func_exit() {
    using namespace tkjit::sim;
    if (current_thread == nullptr) return;
    race::ThreadState& state = race::state_of(*current_thread);
    if (!state.calls.empty()) state.calls.pop_back();
}

// ---- plain accesses

#define TKJIT_TSAN_READ(name, bytes) \
    TKJIT_TSAN void name(void* p) { tkjit::sim::race::note_read(p, bytes, TKJIT_HERE); }
#define TKJIT_TSAN_WRITE(name, bytes) \
    TKJIT_TSAN void name(void* p) { tkjit::sim::race::note_write(p, bytes, TKJIT_HERE); }
#define TKJIT_TSAN_READ_WRITE(name, bytes)                       \
    TKJIT_TSAN void name(void* p) {                              \
        tkjit::sim::race::note_read(p, bytes, TKJIT_HERE);       \
        tkjit::sim::race::note_write(p, bytes, TKJIT_HERE);      \
    }
#define TKJIT_TSAN_VOLATILE_READ(name, bytes) \
    TKJIT_TSAN void name(void* p) { tkjit::sim::race::note_volatile_read(p, bytes, TKJIT_HERE); }
#define TKJIT_TSAN_VOLATILE_WRITE(name, bytes) \
    TKJIT_TSAN void name(void* p) { tkjit::sim::race::note_volatile_write(p, bytes, TKJIT_HERE); }
#define TKJIT_TSAN_ACCESS(bytes)                                           \
    TKJIT_TSAN_READ(__tsan_read##bytes, bytes)                             \
    TKJIT_TSAN_READ(__tsan_unaligned_read##bytes, bytes)                   \
    TKJIT_TSAN_WRITE(__tsan_write##bytes, bytes)                           \
    TKJIT_TSAN_WRITE(__tsan_unaligned_write##bytes, bytes)                 \
    TKJIT_TSAN_READ_WRITE(__tsan_read_write##bytes, bytes)                 \
    TKJIT_TSAN_READ_WRITE(__tsan_unaligned_read_write##bytes, bytes)       \
    TKJIT_TSAN_VOLATILE_READ(__tsan_volatile_read##bytes, bytes)           \
    TKJIT_TSAN_VOLATILE_READ(__tsan_unaligned_volatile_read##bytes, bytes) \
    TKJIT_TSAN_VOLATILE_WRITE(__tsan_volatile_write##bytes, bytes)         \
    TKJIT_TSAN_VOLATILE_WRITE(__tsan_unaligned_volatile_write##bytes, bytes)
TKJIT_TSAN_ACCESS(1)
TKJIT_TSAN_ACCESS(2)
TKJIT_TSAN_ACCESS(4)
TKJIT_TSAN_ACCESS(8)
TKJIT_TSAN_ACCESS(16)
#undef TKJIT_TSAN_ACCESS
#undef TKJIT_TSAN_VOLATILE_WRITE
#undef TKJIT_TSAN_VOLATILE_READ
#undef TKJIT_TSAN_READ_WRITE
#undef TKJIT_TSAN_WRITE
#undef TKJIT_TSAN_READ

TKJIT_TSAN void __tsan_read_range(void* p, size_t bytes) { tkjit::sim::race::note_read(p, bytes, TKJIT_HERE); }
TKJIT_TSAN void __tsan_write_range(void* p, size_t bytes) { tkjit::sim::race::note_write(p, bytes, TKJIT_HERE); }
TKJIT_TSAN void __tsan_vptr_update(void**, void*) {}
TKJIT_TSAN void __tsan_vptr_read(void**) {}

// ---- calls to the C library's functions, which the linker redirects here (--wrap)

extern "C" void* __real_memmove(void*, const void*, size_t);
#define TKJIT_TSAN_COPY(name, real)                                     \
    TKJIT_TSAN void* name(void* to, const void* from, size_t bytes) {   \
        tkjit::sim::race::note_read(from, bytes, TKJIT_HERE);           \
        tkjit::sim::race::note_write(to, bytes, TKJIT_HERE);            \
        return real(to, from, bytes);                                   \
    }
TKJIT_TSAN_COPY(__wrap_memcpy, tkjit::sim::race::__real_memcpy)
TKJIT_TSAN_COPY(__wrap_memmove, __real_memmove)
TKJIT_TSAN_COPY(__tsan_memcpy, tkjit::sim::race::__real_memcpy)
TKJIT_TSAN_COPY(__tsan_memmove, __real_memmove)
#undef TKJIT_TSAN_COPY
#define TKJIT_TSAN_FILL(name)                                           \
    TKJIT_TSAN void* name(void* to, int value, size_t bytes) {          \
        tkjit::sim::race::note_write(to, bytes, TKJIT_HERE);            \
        return tkjit::sim::race::__real_memset(to, value, bytes);       \
    }
TKJIT_TSAN_FILL(__wrap_memset)
TKJIT_TSAN_FILL(__tsan_memset)
#undef TKJIT_TSAN_FILL

// ---- atomics: performed in the strongest order, but recorded with the order that the kernel asks for

#define TKJIT_TSAN_UPDATE(bits, type, name)                                                       \
    TKJIT_TSAN type __tsan_atomic##bits##_##name(volatile type* p, type value, int order) {       \
        tkjit::sim::race::note_update(p, sizeof(type), order, TKJIT_HERE);                        \
        return __atomic_##name(p, value, __ATOMIC_SEQ_CST);                                       \
    }
#define TKJIT_TSAN_COMPARE(bits, type, name, weak)                                                              \
    TKJIT_TSAN int __tsan_atomic##bits##_compare_exchange_##name(volatile type* p, type* expected, type value,  \
                                                                 int order, int) {                              \
        tkjit::sim::race::note_update(p, sizeof(type), order, TKJIT_HERE);                                      \
        return __atomic_compare_exchange_n(p, expected, value, weak, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);       \
    }
// clang's form, which returns the old value
#define TKJIT_TSAN_COMPARE_VALUE(bits, type)                                                                    \
    TKJIT_TSAN type __tsan_atomic##bits##_compare_exchange_val(volatile type* p, type expected, type value,     \
                                                               int order, int) {                                \
        tkjit::sim::race::note_update(p, sizeof(type), order, TKJIT_HERE);                                      \
        __atomic_compare_exchange_n(p, &expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);            \
        return expected;                                                                                        \
    }
#define TKJIT_TSAN_ATOMIC(bits, type)                                                             \
    TKJIT_TSAN type __tsan_atomic##bits##_load(const volatile type* p, int order) {               \
        tkjit::sim::race::note_load(p, sizeof(type), order, TKJIT_HERE);                          \
        return __atomic_load_n(p, __ATOMIC_SEQ_CST);                                              \
    }                                                                                             \
    TKJIT_TSAN void __tsan_atomic##bits##_store(volatile type* p, type value, int order) {        \
        tkjit::sim::race::note_store(p, sizeof(type), order, TKJIT_HERE);                         \
        __atomic_store_n(p, value, __ATOMIC_SEQ_CST);                                             \
    }                                                                                             \
    TKJIT_TSAN type __tsan_atomic##bits##_exchange(volatile type* p, type value, int order) {     \
        tkjit::sim::race::note_update(p, sizeof(type), order, TKJIT_HERE);                        \
        return __atomic_exchange_n(p, value, __ATOMIC_SEQ_CST);                                   \
    }                                                                                             \
    TKJIT_TSAN_UPDATE(bits, type, fetch_add)                                                      \
    TKJIT_TSAN_UPDATE(bits, type, fetch_sub)                                                      \
    TKJIT_TSAN_UPDATE(bits, type, fetch_and)                                                      \
    TKJIT_TSAN_UPDATE(bits, type, fetch_or)                                                       \
    TKJIT_TSAN_UPDATE(bits, type, fetch_xor)                                                      \
    TKJIT_TSAN_UPDATE(bits, type, fetch_nand)                                                     \
    TKJIT_TSAN_COMPARE(bits, type, strong, false)                                                 \
    TKJIT_TSAN_COMPARE(bits, type, weak, true)                                                    \
    TKJIT_TSAN_COMPARE_VALUE(bits, type)
TKJIT_TSAN_ATOMIC(8, uint8_t)
TKJIT_TSAN_ATOMIC(16, uint16_t)
TKJIT_TSAN_ATOMIC(32, uint32_t)
TKJIT_TSAN_ATOMIC(64, uint64_t)
#ifdef __SIZEOF_INT128__
__extension__ typedef unsigned __int128 tkjit_uint128;
TKJIT_TSAN tkjit_uint128 __tsan_atomic128_load(const volatile tkjit_uint128* p, int order) {
    tkjit::sim::race::note_load(p, sizeof(*p), order, TKJIT_HERE);
    return *p;  // only one OS thread at a time runs blocks
}
TKJIT_TSAN void __tsan_atomic128_store(volatile tkjit_uint128* p, tkjit_uint128 value, int order) {
    tkjit::sim::race::note_store(p, sizeof(*p), order, TKJIT_HERE);
    *p = value;
}
TKJIT_TSAN tkjit_uint128 __tsan_atomic128_exchange(volatile tkjit_uint128* p, tkjit_uint128 value, int order) {
    tkjit::sim::race::note_update(p, sizeof(*p), order, TKJIT_HERE);
    const tkjit_uint128 old = *p;
    *p = value;
    return old;
}
TKJIT_TSAN int __tsan_atomic128_compare_exchange_strong(volatile tkjit_uint128* p, tkjit_uint128* expected,
                                                        tkjit_uint128 value, int order, int) {
    tkjit::sim::race::note_update(p, sizeof(*p), order, TKJIT_HERE);
    const tkjit_uint128 old = *p;
    const bool equal = old == *expected;
    if (equal) {
        *p = value;
    } else {
        *expected = old;
    }
    return equal;
}
TKJIT_TSAN tkjit_uint128 __tsan_atomic128_compare_exchange_val(volatile tkjit_uint128* p, tkjit_uint128 expected,
                                                               tkjit_uint128 value, int order, int) {
    __tsan_atomic128_compare_exchange_strong(p, &expected, value, order, order);
    return expected;
}
#endif
#undef TKJIT_TSAN_COMPARE_VALUE
#undef TKJIT_TSAN_ATOMIC
#undef TKJIT_TSAN_COMPARE
#undef TKJIT_TSAN_UPDATE

TKJIT_TSAN void __tsan_atomic_thread_fence(int) {
    if (tkjit::sim::current_thread) tkjit::sim::race::fence();
}
TKJIT_TSAN void __tsan_atomic_signal_fence(int) {
    if (tkjit::sim::current_thread) tkjit::sim::race::fence();
}
#undef TKJIT_TSAN
#undef TKJIT_HERE
