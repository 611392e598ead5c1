// PTX ISA, "Data Movement and Conversion Instructions": ld, st, red, atom, mov, ldmatrix, stmatrix, movmatrix, cp.async.
#pragma once

#include "../detail/scopes.h"
#include "operands.h"

#include <tkjit/ldmatrix.cuh>
#include <tkjit/stmatrix.cuh>

namespace tkjit::sim::ptx {

/// What a loop around a load may wait for: nothing, other threads and blocks, or also other devices (system scope).
enum class Waits { none, for_blocks, for_devices };

/// PTX ISA, `ld`. A load with which a loop may poll (volatile, relaxed, acquire) lets other threads run now and then.
template <class T, unsigned count, Waits waits>
inline void ld(T (&to)[count], const char* address, Site site = Site::here()) {
    struct alignas(sizeof(T) * count) Vector {
        T parts[count];
    };
    const Vector* const from = aligned<Vector>(const_cast<char*>(address), site);
    if constexpr (waits != Waits::none) {
        waits == Waits::for_devices ? note_possible_wait_for_devices(site) : note_possible_spin(site);
        for (unsigned i = 0; i < count; i++) __atomic_load(&from->parts[i], &to[i], __ATOMIC_ACQUIRE);
    } else {
        for (unsigned i = 0; i < count; i++) __builtin_memcpy(static_cast<void*>(&to[i]), &from->parts[i], sizeof(T));
    }
}

/// The order of a store. A relaxed store publishes earlier writes only if a fence precedes it.
enum class Order { weak, relaxed, release };

/// PTX ISA, `st`.
template <class T, unsigned count, Order order>
inline void st(char* address, const T (&values)[count], Site site = Site::here()) {
    struct alignas(sizeof(T) * count) Vector {
        T parts[count];
    };
    Vector* const to = aligned<Vector>(address, site);
    for (unsigned i = 0; i < count; i++) {
        if constexpr (order == Order::release) {
            __atomic_store(&to->parts[i], const_cast<T*>(&values[i]), __ATOMIC_RELEASE);
        } else if constexpr (order == Order::relaxed) {
            __atomic_store(&to->parts[i], const_cast<T*>(&values[i]), atomic_order);
        } else {
            __builtin_memcpy(static_cast<void*>(&to->parts[i]), &values[i], sizeof(T));
        }
    }
}

#define TKJIT_SIM_OPERATION(name, expression)    \
    struct name##_operation {                    \
        template <class T>                       \
        T operator()(T a, T b) const {           \
            return static_cast<T>(expression);   \
        }                                        \
    };
TKJIT_SIM_OPERATION(add, a + b)
TKJIT_SIM_OPERATION(min, b < a ? b : a)
TKJIT_SIM_OPERATION(max, a < b ? b : a)
TKJIT_SIM_OPERATION(and, a& b)
TKJIT_SIM_OPERATION(or, a | b)
TKJIT_SIM_OPERATION(xor, a ^ b)
TKJIT_SIM_OPERATION(exch, (static_cast<void>(a), b))
TKJIT_SIM_OPERATION(inc, a >= b ? T(0) : T(a + T(1)))
TKJIT_SIM_OPERATION(dec, a == T(0) || b < a ? b : T(a - T(1)))
#undef TKJIT_SIM_OPERATION

using sim::Scope;

/// PTX ISA, `fence` and `membar`.
inline void fence(Scope scope) {
    if (sim::is_block(scope)) return __threadfence_block();
    [[maybe_unused]] const sim::InScope held(scope);
    __threadfence();
}

/// Performs an atomic operation with an order and a scope.
template <bool acquires, bool releases, Scope scope, class Operation>
inline auto ordered(Operation operation) {
#ifdef TKJIT_SIM_RACE
    struct Fences {
        Fences() {
            if (releases) fence(scope);
        }
        ~Fences() {
            if (acquires) fence(scope);
        }
    };
    const Fences fences;
    const sim::InScope held(scope);
#endif
    return operation();
}

/// PTX ISA, `atom`: returns the old value.
template <class T, class Operation>
inline T atom(Operation operation, char* address, T value, Site site = Site::here()) {
    note_possible_spin(site);
    return atomic_update(aligned<T>(address, site), [=](T old) { return operation(old, value); });
}

template <class T>
inline T atom_cas(char* address, T expected, T value, Site site = Site::here()) {
    return atomicCAS(aligned<T>(address, site), expected, value, site);
}

/// PTX ISA, `red`: updates each element of a vector atomically.
template <class T, unsigned count, class Operation>
inline void red(Operation operation, char* address, const T (&values)[count], Site site = Site::here()) {
    for (unsigned i = 0; i < count; i++) {
        const T value = values[i];
        atomic_update(aligned<T>(address + i * sizeof(T), site), [=](T old) { return operation(old, value); });
    }
}

/// PTX ISA, `mov` of a vector.
template <class To, class From, unsigned count>
inline To pack(const From (&parts)[count]) {
    static_assert(sizeof(To) == sizeof(parts));
    To to;
    __builtin_memcpy(&to, parts, sizeof(to));
    return to;
}

template <class To, unsigned count, class From>
inline void unpack(To (&parts)[count], From value) {
    static_assert(sizeof(From) == sizeof(parts));
    __builtin_memcpy(parts, &value, sizeof(value));
}

/// PTX ISA, `ldmatrix`.
template <int count, bool is_transposed>
inline void ldmatrix(uint32_t (&to)[count], const char* row, Site site = Site::here()) {
    sim::ldmatrix<count, is_transposed>(to, row, site);
}

/// PTX ISA, `stmatrix`.
template <int count, bool is_transposed>
inline void stmatrix(char* row, const uint32_t (&fragments)[count], Site site = Site::here()) {
    sim::stmatrix<count, is_transposed>(row, fragments, site);
}

/// PTX ISA, `movmatrix`: transposes an 8 x 8 matrix of 16-bit elements in the lanes' registers.
inline uint32_t movmatrix_trans(uint32_t fragment, Site site = Site::here()) {
    struct Operands {
        uint32_t from, to;
    } operands{fragment, 0};
    require_full_warp(Operation::ldmatrix, site);
    const auto combine = [](Lanes<Operands> lanes) {
        lanes.for_each([&](int lane, Operands& own) {
            const auto element = [&](int row, int column) {
                return lanes[row * 4 + column / 2].from >> column % 2 * 16 & 0xffff;
            };
            const int row = lane / 4, column = lane % 4 * 2;
            own.to = element(column + 1, row) << 16 | element(column, row);
        });
    };
    collective(~0u, Operation::ldmatrix, operands, combine, site);
    return operands.to;
}

/// PTX ISA, `cp.async`.
inline void cp_async(char* to, const char* from, unsigned bytes, unsigned source_bytes, Site site = Site::here()) {
    if ((reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from)) % bytes) {
        fail(site, "cp.async of %u bytes: both addresses must be multiples of that size", bytes);
    }
    issue_copy(to, from, bytes, source_bytes, site);
}
inline void cp_async_wait_all() { wait_for_all_copies(); }

}  // namespace tkjit::sim::ptx
