// Operands of inline PTX: the constraints of an `asm` statement, and conversions between a register's bits and typed
// values.
// Source: Inline PTX Assembly in CUDA, "Constraints".
#pragma once

#include "../cuda_bf16.h"
#include "../cuda_fp16.h"
#include "../cuda_fp8.h"
#include "../cuda_runtime.h"
#include "../detail/statement.h"

#include <stdint.h>
#include <type_traits>

namespace tkjit::sim::ptx {

/// Converts an operand to another type. The bits are kept if the sizes are equal; otherwise they are truncated or
/// extended as an integer. A literal in the PTX text is converted by value.
template <class To, class From>
inline To as(From value) {
    if constexpr (std::is_same_v<To, From>) {
        return value;
    } else if constexpr (std::is_same_v<To, bool>) {
        return value != 0;
    } else if constexpr (std::is_same_v<From, double> && std::is_same_v<To, float>) {
        return static_cast<float>(value);  // a floating-point literal
    } else if constexpr (std::is_integral_v<From> && std::is_integral_v<To>) {
        return static_cast<To>(value);
    } else if constexpr (sizeof(To) == sizeof(From)) {
        return __builtin_bit_cast(To, value);
    } else if constexpr (std::is_floating_point_v<To> && std::is_integral_v<From>) {
        return static_cast<To>(value);  // an integer literal for a floating-point operand
    } else if constexpr (std::is_integral_v<From> || std::is_same_v<From, unsigned __int128>) {
        using Bits = std::conditional_t<sizeof(To) == 1, uint8_t, std::conditional_t<sizeof(To) == 2, uint16_t, uint32_t>>;
        return as<To>(static_cast<Bits>(value));
    } else {
        static_assert(sizeof(To) == sizeof(From), "the size of an inline PTX operand does not match its instruction");
    }
}

#define TKJIT_SIM_INPUT(letter, type, bytes)                                                                        \
    template <class T>                                                                                              \
    inline type input_##letter(const T& value) {                                                                    \
        if constexpr (std::is_array_v<T>) {                                                                         \
            return reinterpret_cast<uintptr_t>(&value[0]);                                                          \
        } else if constexpr (std::is_pointer_v<T>) {                                                                \
            static_assert(sizeof(T) == bytes, "a pointer as an operand of inline PTX needs the constraint \"l\"");          \
            return reinterpret_cast<uintptr_t>(value);                                                              \
        } else if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) {                                          \
            static_assert(sizeof(T) <= bytes, "an operand of inline PTX is larger than its constraint \"" #letter   \
                                              "\"");                                                                \
            return static_cast<type>(value);                                                                        \
        } else {                                                                                                    \
            static_assert(sizeof(T) == bytes, "the size of an inline PTX operand does not match its constraint \""  \
                                              #letter "\"");                                                        \
            return __builtin_bit_cast(type, value);                                                                 \
        }                                                                                                           \
    }
TKJIT_SIM_INPUT(h, uint16_t, 2)
TKJIT_SIM_INPUT(r, uint32_t, 4)
TKJIT_SIM_INPUT(l, uint64_t, 8)
#undef TKJIT_SIM_INPUT

inline unsigned __int128 input_q(unsigned __int128 value) { return value; }
inline float input_f(float value) { return value; }
inline double input_d(double value) { return value; }
template <class T>
inline auto input_n(T value) {
    return static_cast<long long>(value);
}

/// Returns whether a string operand (constraint "C") equals `text`.
constexpr bool is_text(const char* operand, const char* text) {
    while (*operand && *operand == *text) ++operand, ++text;
    return *operand == *text;
}

/// Writes a result to the statement's operand.
template <class To, class From>
inline void output(To& to, From value) {
    if constexpr (std::is_same_v<To, From>) {
        to = value;
    } else if constexpr (std::is_integral_v<To> && !std::is_same_v<To, bool> && std::is_integral_v<From>) {
        to = static_cast<To>(value);
    } else if constexpr (std::is_same_v<To, bool>) {
        to = value & 1;
    } else {
        static_assert(sizeof(To) == sizeof(From), "the size of an inline PTX result does not match its constraint");
        __builtin_memcpy(static_cast<void*>(&to), &value, sizeof(to));
    }
}

/// Writes a result to a register that may be wider. A signed result is sign-extended.
template <class To, class From>
inline void set(To& to, From value) {
    if constexpr (std::is_same_v<To, From>) {
        to = value;
    } else if constexpr (std::is_integral_v<From> && std::is_integral_v<To>) {
        to = static_cast<To>(value);
    } else if constexpr (sizeof(To) == sizeof(From)) {
        __builtin_memcpy(&to, &value, sizeof(to));
    } else {
        static_assert(sizeof(From) < sizeof(To), "a result of inline PTX is larger than its register");
        uint64_t bits = 0;
        __builtin_memcpy(&bits, &value, sizeof(value));
        to = as<To>(static_cast<std::conditional_t<sizeof(To) == 4, uint32_t, uint64_t>>(bits));
    }
}

/// The memory at a 32-bit address in the block's window.
inline char* shared(unsigned long long base, long long offset = 0, Site site = Site::here()) {
    return in_window(base + static_cast<unsigned long long>(offset), 1, site);
}

/// The memory at a generic or global address.
inline char* global(unsigned long long base, long long offset = 0) {
    return reinterpret_cast<char*>(base + static_cast<unsigned long long>(offset));
}

inline uint64_t to_shared(uint64_t generic) { return __cvta_generic_to_shared(reinterpret_cast<void*>(generic)); }
inline uint64_t from_shared(uint64_t address) { return reinterpret_cast<uint64_t>(__cvta_shared_to_generic(address)); }

template <class T>
inline T* aligned(char* address, Site site) {
    if (reinterpret_cast<uintptr_t>(address) % sizeof(T)) {
        fail(site, "a misaligned access of %u bytes at %p", unsigned(sizeof(T)), static_cast<void*>(address));
    }
    return reinterpret_cast<T*>(address);
}

/// Called in place of an instruction that the simulator lacks. So a source compiles, and fails only if a thread reaches
/// the instruction.
[[noreturn]] inline void unknown(const char* instruction, Site site = Site::here()) {
    fail(site, "the simulator has no %s", instruction);
}

}  // namespace tkjit::sim::ptx
