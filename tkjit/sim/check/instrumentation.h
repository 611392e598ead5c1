// The functions that a compiler calls at each access under -fsanitize=thread. Its runtime library is not linked: these
// take its place, in gcc and clang alike, so that the checker needs nothing but the compiler, knows what a CUDA thread,
// a barrier and shared memory are, and runs whatever the process's addresses are.
//
// Source: the interface, gcc/sanitizer.def and compiler-rt's tsan_interface.h.
#pragma once

namespace tkjit::sim::race {

inline uintptr_t before(void* return_address) { return reinterpret_cast<uintptr_t>(return_address) - 1; }

inline void reported(const void* address, size_t bytes, bool is_write, Kind kind, void* return_address) {
    if (current_thread == nullptr || check::region_of(reinterpret_cast<uintptr_t>(address)) == nullptr) return;
    const unsigned where = places.at(calling_place(state_of(*current_thread)), before(return_address));
    access(address, bytes, is_write, kind, where);
}

inline void reported_atomic(const volatile void* volatile_address, size_t bytes, bool is_write, int order,
                            void* return_address) {
    const void* const address = const_cast<const void*>(volatile_address);
    if (current_thread == nullptr || check::region_of(reinterpret_cast<uintptr_t>(address)) == nullptr) return;
    const unsigned where = places.at(calling_place(state_of(*current_thread)), before(return_address));
    atomic_access(address, bytes, is_write, (order & 0xffff) >= __ATOMIC_RELEASE, where);
}

}  // namespace tkjit::sim::race

#define TKJIT_HERE __builtin_return_address(0)
#define TKJIT_TSAN extern "C" __attribute__((noinline, visibility("hidden")))

TKJIT_TSAN void __tsan_init() {}
TKJIT_TSAN void __tsan_func_entry(void* return_address) {
    using namespace tkjit::sim;
    if (current_thread == nullptr) return;
    race::ThreadState& state = race::state_of(*current_thread);
    state.calls.push_back(race::places.at(race::calling_place(state), race::before(return_address)));
}
TKJIT_TSAN void __tsan_func_exit() {
    using namespace tkjit::sim;
    if (current_thread == nullptr) return;
    race::ThreadState& state = race::state_of(*current_thread);
    if (!state.calls.empty()) state.calls.pop_back();
}

// A volatile access is what kernels wait for flags with: an atomic one, without an order; and others get their turn.
#define TKJIT_TSAN_ACCESS(bytes)                                                                                       \
    TKJIT_TSAN void __tsan_read##bytes(void* p) {                                                                      \
        tkjit::sim::race::reported(p, bytes, false, tkjit::sim::race::plain, TKJIT_HERE);                              \
    }                                                                                                                  \
    TKJIT_TSAN void __tsan_write##bytes(void* p) {                                                                     \
        tkjit::sim::race::reported(p, bytes, true, tkjit::sim::race::plain, TKJIT_HERE);                               \
    }                                                                                                                  \
    TKJIT_TSAN void __tsan_read_write##bytes(void* p) {                                                                \
        tkjit::sim::race::reported(p, bytes, false, tkjit::sim::race::plain, TKJIT_HERE);                              \
        tkjit::sim::race::reported(p, bytes, true, tkjit::sim::race::plain, TKJIT_HERE);                               \
    }                                                                                                                  \
    TKJIT_TSAN void __tsan_unaligned_read##bytes(void* p) {                                                            \
        tkjit::sim::race::reported(p, bytes, false, tkjit::sim::race::plain, TKJIT_HERE);                              \
    }                                                                                                                  \
    TKJIT_TSAN void __tsan_unaligned_write##bytes(void* p) {                                                           \
        tkjit::sim::race::reported(p, bytes, true, tkjit::sim::race::plain, TKJIT_HERE);                               \
    }                                                                                                                  \
    TKJIT_TSAN void __tsan_unaligned_read_write##bytes(void* p) {                                                      \
        tkjit::sim::race::reported(p, bytes, false, tkjit::sim::race::plain, TKJIT_HERE);                              \
        tkjit::sim::race::reported(p, bytes, true, tkjit::sim::race::plain, TKJIT_HERE);                               \
    }                                                                                                                  \
    TKJIT_TSAN void __tsan_volatile_read##bytes(void* p) {                                                             \
        tkjit::sim::note_possible_spin({"a volatile variable", 0});                                                    \
        tkjit::sim::race::reported_atomic(p, bytes, false, __ATOMIC_RELAXED, TKJIT_HERE);                              \
    }                                                                                                                  \
    TKJIT_TSAN void __tsan_volatile_write##bytes(void* p) {                                                            \
        tkjit::sim::race::reported_atomic(p, bytes, true, __ATOMIC_RELAXED, TKJIT_HERE);                               \
    }                                                                                                                  \
    TKJIT_TSAN void __tsan_unaligned_volatile_read##bytes(void* p) {                                                   \
        tkjit::sim::race::reported_atomic(p, bytes, false, __ATOMIC_RELAXED, TKJIT_HERE);                              \
    }                                                                                                                  \
    TKJIT_TSAN void __tsan_unaligned_volatile_write##bytes(void* p) {                                                  \
        tkjit::sim::race::reported_atomic(p, bytes, true, __ATOMIC_RELAXED, TKJIT_HERE);                               \
    }
TKJIT_TSAN_ACCESS(1)
TKJIT_TSAN_ACCESS(2)
TKJIT_TSAN_ACCESS(4)
TKJIT_TSAN_ACCESS(8)
TKJIT_TSAN_ACCESS(16)
#undef TKJIT_TSAN_ACCESS

TKJIT_TSAN void __tsan_read_range(void* p, size_t bytes) {
    tkjit::sim::race::reported(p, bytes, false, tkjit::sim::race::plain, TKJIT_HERE);
}
TKJIT_TSAN void __tsan_write_range(void* p, size_t bytes) {
    tkjit::sim::race::reported(p, bytes, true, tkjit::sim::race::plain, TKJIT_HERE);
}
TKJIT_TSAN void __tsan_vptr_update(void**, void*) {}
TKJIT_TSAN void __tsan_vptr_read(void**) {}

// Calls of the C library's own; the linker leads them here (--wrap).
extern "C" void* __real_memmove(void*, const void*, size_t);
#define TKJIT_TSAN_COPY(name, real)                                                              \
    TKJIT_TSAN void* name(void* to, const void* from, size_t bytes) {                            \
        tkjit::sim::race::reported(from, bytes, false, tkjit::sim::race::plain, TKJIT_HERE);     \
        tkjit::sim::race::reported(to, bytes, true, tkjit::sim::race::plain, TKJIT_HERE);        \
        return real(to, from, bytes);                                                           \
    }
TKJIT_TSAN_COPY(__wrap_memcpy, tkjit::sim::race::__real_memcpy)
TKJIT_TSAN_COPY(__wrap_memmove, __real_memmove)
TKJIT_TSAN_COPY(__tsan_memcpy, tkjit::sim::race::__real_memcpy)
TKJIT_TSAN_COPY(__tsan_memmove, __real_memmove)
#undef TKJIT_TSAN_COPY
#define TKJIT_TSAN_FILL(name)                                                                    \
    TKJIT_TSAN void* name(void* to, int value, size_t bytes) {                                   \
        tkjit::sim::race::reported(to, bytes, true, tkjit::sim::race::plain, TKJIT_HERE);        \
        return tkjit::sim::race::__real_memset(to, value, bytes);                                                \
    }
TKJIT_TSAN_FILL(__wrap_memset)
TKJIT_TSAN_FILL(__tsan_memset)
#undef TKJIT_TSAN_FILL

// ---- atomics: done as they are asked for, in the strongest order, and reported with their own

#define TKJIT_TSAN_UPDATE(bits, type, name)                                                            \
    TKJIT_TSAN type __tsan_atomic##bits##_##name(volatile type* p, type value, int order) {            \
        tkjit::sim::race::reported_atomic(p, sizeof(type), true, order, TKJIT_HERE);                   \
        return __atomic_##name(p, value, __ATOMIC_SEQ_CST);                                            \
    }
#define TKJIT_TSAN_COMPARE(bits, type, name, weak)                                                            \
    TKJIT_TSAN int __tsan_atomic##bits##_compare_exchange_##name(volatile type* p, type* expected, type value, \
                                                                 int order, int) {                            \
        tkjit::sim::race::reported_atomic(p, sizeof(type), true, order, TKJIT_HERE);                          \
        return __atomic_compare_exchange_n(p, expected, value, weak, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);     \
    }
#define TKJIT_TSAN_ATOMIC(bits, type)                                                                  \
    TKJIT_TSAN type __tsan_atomic##bits##_load(const volatile type* p, int order) {                    \
        tkjit::sim::race::reported_atomic(p, sizeof(type), false, order, TKJIT_HERE);                  \
        return __atomic_load_n(p, __ATOMIC_SEQ_CST);                                                   \
    }                                                                                                  \
    TKJIT_TSAN void __tsan_atomic##bits##_store(volatile type* p, type value, int order) {             \
        tkjit::sim::race::reported_atomic(p, sizeof(type), true, order, TKJIT_HERE);                   \
        __atomic_store_n(p, value, __ATOMIC_SEQ_CST);                                                  \
    }                                                                                                  \
    TKJIT_TSAN type __tsan_atomic##bits##_exchange(volatile type* p, type value, int order) {          \
        tkjit::sim::race::reported_atomic(p, sizeof(type), true, order, TKJIT_HERE);                   \
        return __atomic_exchange_n(p, value, __ATOMIC_SEQ_CST);                                        \
    }                                                                                                  \
    TKJIT_TSAN_UPDATE(bits, type, fetch_add)                                                           \
    TKJIT_TSAN_UPDATE(bits, type, fetch_sub)                                                           \
    TKJIT_TSAN_UPDATE(bits, type, fetch_and)                                                           \
    TKJIT_TSAN_UPDATE(bits, type, fetch_or)                                                            \
    TKJIT_TSAN_UPDATE(bits, type, fetch_xor)                                                           \
    TKJIT_TSAN_UPDATE(bits, type, fetch_nand)                                                          \
    TKJIT_TSAN_COMPARE(bits, type, strong, false)                                                      \
    TKJIT_TSAN_COMPARE(bits, type, weak, true)
TKJIT_TSAN_ATOMIC(8, uint8_t)
TKJIT_TSAN_ATOMIC(16, uint16_t)
TKJIT_TSAN_ATOMIC(32, uint32_t)
TKJIT_TSAN_ATOMIC(64, uint64_t)
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
