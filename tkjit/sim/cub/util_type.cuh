// CUB's helper types: raw storage, pairs, double buffers, and traits of numbers.
#pragma once

#include "../cuda_bf16.h"
#include "../cuda_fp16.h"
#include "config.cuh"

#include <cstddef>
#include <iterator>
#include <limits>
#include <type_traits>
#include <utility>

namespace cub {

/// The type of a primitive's values if it has only keys.
struct NullType {
    template <class T>
    NullType& operator=(const T&) {
        return *this;
    }
    bool operator==(const NullType&) const { return true; }
    bool operator!=(const NullType&) const { return false; }
};

template <int A>
struct Int2Type {
    enum { VALUE = A };
};

template <bool Condition, class Then, class Else>
struct If {
    using Type = std::conditional_t<Condition, Then, Else>;
};
template <class A, class B>
struct Equals {
    enum { VALUE = std::is_same_v<A, B>, NEGATE = !VALUE };
};
template <int N, int Current = N, int Count = 0>
struct Log2 {
    enum { VALUE = N <= 1 ? 0 : 32 - __builtin_clz(N - 1) };
};
template <int N>
struct PowerOfTwo {
    enum { VALUE = (N & (N - 1)) == 0 };
};
template <class T>
struct RemoveQualifiers {
    using Type = std::remove_cv_t<T>;
};

template <class Iterator>
using value_t = typename std::iterator_traits<Iterator>::value_type;

/// Storage for a T without its constructor, as needed in shared memory.
template <class T>
struct Uninitialized {
    alignas(T) unsigned char storage[sizeof(T)];

    T& Alias() { return *reinterpret_cast<T*>(storage); }
};

template <class KeyT, class ValueT>
struct KeyValuePair {
    using Key = KeyT;
    using Value = ValueT;

    KeyT key;
    ValueT value;

    KeyValuePair() = default;
    KeyValuePair(const KeyT& key, const ValueT& value) : key(key), value(value) {}
    bool operator==(const KeyValuePair& other) const { return key == other.key && value == other.value; }
    bool operator!=(const KeyValuePair& other) const { return !(*this == other); }
};

/// Two buffers, of which the one numbered `selector` holds the data.
template <class T>
struct DoubleBuffer {
    T* d_buffers[2];
    int selector = 0;

    DoubleBuffer() : d_buffers{nullptr, nullptr} {}
    DoubleBuffer(T* current, T* alternate) : d_buffers{current, alternate} {}
    T* Current() { return d_buffers[selector]; }
    T* Alternate() { return d_buffers[selector ^ 1]; }
};

/// An initial value that is read from memory only when the kernel runs.
template <class T, class Iterator = T*>
struct FutureValue {
    using value_type = T;

    explicit FutureValue(Iterator iterator) : iterator(iterator) {}
    operator T() const { return *iterator; }

  private:
    Iterator iterator;
};

enum Category { NOT_A_NUMBER, SIGNED_INTEGER, UNSIGNED_INTEGER, FLOATING_POINT };

namespace detail {

template <size_t Bytes>
struct BitsOfSize;
template <>
struct BitsOfSize<1> { using type = unsigned char; };
template <>
struct BitsOfSize<2> { using type = unsigned short; };
template <>
struct BitsOfSize<4> { using type = unsigned int; };
template <>
struct BitsOfSize<8> { using type = unsigned long long; };
template <>
struct BitsOfSize<16> { using type = unsigned __int128; };

template <class T>
inline constexpr bool is_half = std::is_same_v<T, __half> || std::is_same_v<T, __nv_bfloat16>;

template <class T>
inline constexpr Category category_of = std::is_floating_point_v<T> || is_half<T>      ? FLOATING_POINT
                                        : std::is_same_v<T, unsigned __int128>         ? UNSIGNED_INTEGER
                                        : std::is_same_v<T, __int128>                  ? SIGNED_INTEGER
                                        : !std::is_integral_v<T> || sizeof(T) > 8      ? NOT_A_NUMBER
                                        : std::is_signed_v<T>                          ? SIGNED_INTEGER
                                                                                       : UNSIGNED_INTEGER;

template <class T>
T value_of_bits(typename BitsOfSize<sizeof(T)>::type bits) {
    T value;
    __builtin_memcpy(static_cast<void*>(&value), &bits, sizeof(T));
    return value;
}

}  // namespace detail

/// A number's bits as an unsigned integer. TwiddleIn changes these bits so that they compare like the numbers.
template <class T>
struct NumericTraits {
    static constexpr Category CATEGORY = detail::category_of<T>;
    enum { PRIMITIVE = CATEGORY != NOT_A_NUMBER, NULL_TYPE = std::is_same_v<T, NullType> };
};
template <class T>
    requires(detail::category_of<T> != NOT_A_NUMBER)
struct NumericTraits<T> {
    static constexpr Category CATEGORY = detail::category_of<T>;
    enum { PRIMITIVE = true, NULL_TYPE = false };
    using UnsignedBits = typename detail::BitsOfSize<sizeof(T)>::type;
    static constexpr UnsignedBits HIGH_BIT = static_cast<UnsignedBits>(UnsignedBits{1} << (sizeof(T) * 8 - 1));
    static constexpr UnsignedBits LOWEST_KEY = CATEGORY == FLOATING_POINT ? static_cast<UnsignedBits>(-1)
                                               : CATEGORY == SIGNED_INTEGER ? HIGH_BIT
                                                                            : UnsignedBits{0};
    static constexpr UnsignedBits MAX_KEY = static_cast<UnsignedBits>(~LOWEST_KEY);

    static UnsignedBits TwiddleIn(UnsignedBits bits) {
        if (CATEGORY == UNSIGNED_INTEGER) return bits;
        if (CATEGORY == FLOATING_POINT && (bits & HIGH_BIT)) return static_cast<UnsignedBits>(~bits);
        return static_cast<UnsignedBits>(bits ^ HIGH_BIT);
    }
    static UnsignedBits TwiddleOut(UnsignedBits bits) {
        if (CATEGORY == UNSIGNED_INTEGER) return bits;
        if (CATEGORY == FLOATING_POINT && !(bits & HIGH_BIT)) return static_cast<UnsignedBits>(~bits);
        return static_cast<UnsignedBits>(bits ^ HIGH_BIT);
    }
    static T Max() {
        if constexpr (std::is_same_v<T, __half>) return detail::value_of_bits<T>(0x7bff);
        else if constexpr (std::is_same_v<T, __nv_bfloat16>) return detail::value_of_bits<T>(0x7f7f);
        else if constexpr (CATEGORY == FLOATING_POINT) return std::numeric_limits<T>::max();
        else return static_cast<T>(MAX_KEY);
    }
    static T Lowest() {
        if constexpr (detail::is_half<T>) return -Max();
        else if constexpr (CATEGORY == FLOATING_POINT) return std::numeric_limits<T>::lowest();
        else return static_cast<T>(LOWEST_KEY);
    }
};
template <class T>
struct Traits : NumericTraits<std::remove_cv_t<T>> {};
template <class T>
using FpLimits = NumericTraits<T>;

}  // namespace cub
