// The functions that gcc and clang call at each access under -fsanitize=thread. They replace the compiler's runtime
// library, which is not linked. So the checker needs nothing but the compiler, understands CUDA threads, barriers and
// shared memory, and works wherever the process's memory is mapped.
//
// Source of the interface: gcc/sanitizer.def and compiler-rt's tsan_interface.h.
#pragma once

#ifdef TKJIT_SIM_RACE
#include "race_hooks.h"
#else
#include "overflow.h"
#endif

#include <stddef.h>
#include <stdint.h>

#define TKJIT_HERE __builtin_return_address(0)
#define TKJIT_TSAN extern "C" __attribute__((noinline, visibility("hidden")))

TKJIT_TSAN void __tsan_init() {}
TKJIT_TSAN void __tsan_func_entry(void* return_address) {
    tkjit::sim::hooks::enter_function(return_address, __builtin_dwarf_cfa());
}
TKJIT_TSAN void __tsan_func_exit() { tkjit::sim::hooks::leave_function(); }

// ---- plain accesses

#define TKJIT_TSAN_READ(name, bytes) \
    TKJIT_TSAN void name(void* p) { tkjit::sim::hooks::note_read(p, bytes, TKJIT_HERE); }
#define TKJIT_TSAN_WRITE(name, bytes) \
    TKJIT_TSAN void name(void* p) { tkjit::sim::hooks::note_write(p, bytes, TKJIT_HERE); }
#define TKJIT_TSAN_READ_WRITE(name, bytes)                   \
    TKJIT_TSAN void name(void* p) {                          \
        tkjit::sim::hooks::note_read(p, bytes, TKJIT_HERE);  \
        tkjit::sim::hooks::note_write(p, bytes, TKJIT_HERE); \
    }
#define TKJIT_TSAN_VOLATILE_READ(name, bytes) \
    TKJIT_TSAN void name(void* p) { tkjit::sim::hooks::note_volatile_read(p, bytes, TKJIT_HERE); }
#define TKJIT_TSAN_VOLATILE_WRITE(name, bytes) \
    TKJIT_TSAN void name(void* p) { tkjit::sim::hooks::note_volatile_write(p, bytes, TKJIT_HERE); }
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

TKJIT_TSAN void __tsan_read_range(void* p, size_t bytes) { tkjit::sim::hooks::note_read(p, bytes, TKJIT_HERE); }
TKJIT_TSAN void __tsan_write_range(void* p, size_t bytes) { tkjit::sim::hooks::note_write(p, bytes, TKJIT_HERE); }
TKJIT_TSAN void __tsan_vptr_update(void**, void*) {}
TKJIT_TSAN void __tsan_vptr_read(void**) {}

// ---- calls to the C library's functions, which the linker redirects here (--wrap)

extern "C" {
void* __real_memcpy(void*, const void*, size_t);
void* __real_memmove(void*, const void*, size_t);
void* __real_memset(void*, int, size_t);
}
#define TKJIT_TSAN_COPY(name, real)                                   \
    TKJIT_TSAN void* name(void* to, const void* from, size_t bytes) { \
        tkjit::sim::hooks::note_read(from, bytes, TKJIT_HERE);        \
        tkjit::sim::hooks::note_write(to, bytes, TKJIT_HERE);         \
        return real(to, from, bytes);                                 \
    }
TKJIT_TSAN_COPY(__wrap_memcpy, __real_memcpy)
TKJIT_TSAN_COPY(__wrap_memmove, __real_memmove)
TKJIT_TSAN_COPY(__tsan_memcpy, __real_memcpy)
TKJIT_TSAN_COPY(__tsan_memmove, __real_memmove)
#undef TKJIT_TSAN_COPY
#define TKJIT_TSAN_FILL(name)                                  \
    TKJIT_TSAN void* name(void* to, int value, size_t bytes) { \
        tkjit::sim::hooks::note_write(to, bytes, TKJIT_HERE);  \
        return __real_memset(to, value, bytes);                \
    }
TKJIT_TSAN_FILL(__wrap_memset)
TKJIT_TSAN_FILL(__tsan_memset)
#undef TKJIT_TSAN_FILL

// ---- atomics: performed in the strongest order, but recorded with the order that the kernel asks for

#define TKJIT_TSAN_UPDATE(bits, type, name)                                                 \
    TKJIT_TSAN type __tsan_atomic##bits##_##name(volatile type* p, type value, int order) { \
        tkjit::sim::hooks::note_update(p, sizeof(type), order, TKJIT_HERE);                 \
        return __atomic_##name(p, value, __ATOMIC_SEQ_CST);                                 \
    }
#define TKJIT_TSAN_COMPARE(bits, type, name, weak)                                                             \
    TKJIT_TSAN int __tsan_atomic##bits##_compare_exchange_##name(volatile type* p, type* expected, type value, \
                                                                 int order, int) {                             \
        tkjit::sim::hooks::note_update(p, sizeof(type), order, TKJIT_HERE);                                    \
        return __atomic_compare_exchange_n(p, expected, value, weak, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);      \
    }
// clang's form, which returns the old value
#define TKJIT_TSAN_COMPARE_VALUE(bits, type)                                                                \
    TKJIT_TSAN type __tsan_atomic##bits##_compare_exchange_val(volatile type* p, type expected, type value, \
                                                               int order, int) {                            \
        tkjit::sim::hooks::note_update(p, sizeof(type), order, TKJIT_HERE);                                 \
        __atomic_compare_exchange_n(p, &expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);        \
        return expected;                                                                                    \
    }
#define TKJIT_TSAN_ATOMIC(bits, type)                                                         \
    TKJIT_TSAN type __tsan_atomic##bits##_load(const volatile type* p, int order) {           \
        tkjit::sim::hooks::note_load(p, sizeof(type), order, TKJIT_HERE);                     \
        return __atomic_load_n(p, __ATOMIC_SEQ_CST);                                          \
    }                                                                                         \
    TKJIT_TSAN void __tsan_atomic##bits##_store(volatile type* p, type value, int order) {    \
        tkjit::sim::hooks::note_store(p, sizeof(type), order, TKJIT_HERE);                    \
        __atomic_store_n(p, value, __ATOMIC_SEQ_CST);                                         \
    }                                                                                         \
    TKJIT_TSAN type __tsan_atomic##bits##_exchange(volatile type* p, type value, int order) { \
        tkjit::sim::hooks::note_update(p, sizeof(type), order, TKJIT_HERE);                   \
        return __atomic_exchange_n(p, value, __ATOMIC_SEQ_CST);                               \
    }                                                                                         \
    TKJIT_TSAN_UPDATE(bits, type, fetch_add)                                                  \
    TKJIT_TSAN_UPDATE(bits, type, fetch_sub)                                                  \
    TKJIT_TSAN_UPDATE(bits, type, fetch_and)                                                  \
    TKJIT_TSAN_UPDATE(bits, type, fetch_or)                                                   \
    TKJIT_TSAN_UPDATE(bits, type, fetch_xor)                                                  \
    TKJIT_TSAN_UPDATE(bits, type, fetch_nand)                                                 \
    TKJIT_TSAN_COMPARE(bits, type, strong, false)                                             \
    TKJIT_TSAN_COMPARE(bits, type, weak, true)                                                \
    TKJIT_TSAN_COMPARE_VALUE(bits, type)
TKJIT_TSAN_ATOMIC(8, uint8_t)
TKJIT_TSAN_ATOMIC(16, uint16_t)
TKJIT_TSAN_ATOMIC(32, uint32_t)
TKJIT_TSAN_ATOMIC(64, uint64_t)
#ifdef __SIZEOF_INT128__
__extension__ typedef unsigned __int128 tkjit_uint128;
TKJIT_TSAN tkjit_uint128 __tsan_atomic128_load(const volatile tkjit_uint128* p, int order) {
    tkjit::sim::hooks::note_load(p, sizeof(*p), order, TKJIT_HERE);
    return *p;  // only one OS thread at a time runs blocks
}
TKJIT_TSAN void __tsan_atomic128_store(volatile tkjit_uint128* p, tkjit_uint128 value, int order) {
    tkjit::sim::hooks::note_store(p, sizeof(*p), order, TKJIT_HERE);
    *p = value;
}
TKJIT_TSAN tkjit_uint128 __tsan_atomic128_exchange(volatile tkjit_uint128* p, tkjit_uint128 value, int order) {
    tkjit::sim::hooks::note_update(p, sizeof(*p), order, TKJIT_HERE);
    const tkjit_uint128 old = *p;
    *p = value;
    return old;
}
TKJIT_TSAN int __tsan_atomic128_compare_exchange_strong(volatile tkjit_uint128* p, tkjit_uint128* expected,
                                                        tkjit_uint128 value, int order, int) {
    tkjit::sim::hooks::note_update(p, sizeof(*p), order, TKJIT_HERE);
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

TKJIT_TSAN void __tsan_atomic_thread_fence(int) { tkjit::sim::hooks::note_fence(); }
// which the simulator's __threadfence_block calls
TKJIT_TSAN void __tsan_atomic_signal_fence(int) { tkjit::sim::hooks::note_fence_in_block(); }
#undef TKJIT_TSAN
#undef TKJIT_HERE
