// What the C++ programs of the applications share: their input, and how they print results.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

/// n numbers from 0 to below - 1, the same as applications.numbers of Python.
inline std::vector<int> numbers(std::size_t n, int below, std::uint64_t seed = 1) {
    std::vector<int> found(n);
    for (std::size_t i = 0; i < n; ++i) {
        const std::uint64_t mixed = (i + seed) * 2654435761u;
        found[i] = static_cast<int>((mixed >> 7) % 1000003 % static_cast<std::uint64_t>(below));
    }
    return found;
}

inline void print_one(double value) { std::printf(" %.17g", value); }
inline void print_one(float value) { std::printf(" %.17g", static_cast<double>(value)); }
inline void print_one(int value) { std::printf(" %d", value); }
inline void print_one(long value) { std::printf(" %ld", value); }

/// A line with a name and numbers.
template <class It>
void print(const char* name, It first, It last) {
    std::printf("%s", name);
    for (; first != last; ++first) print_one(static_cast<typename std::iterator_traits<It>::value_type>(*first));
    std::printf("\n");
}
template <class T>
void print(const char* name, T value) {
    std::printf("%s", name);
    print_one(value);
    std::printf("\n");
}
