// The common parts of the applications' C++ programs: their input, their clock, and printing of results.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

/// Returns n numbers from 0 to below - 1, the same as applications.numbers in Python.
inline std::vector<int> numbers(std::size_t n, int below, std::uint64_t seed = 1) {
    std::vector<int> found(n);
    for (std::size_t i = 0; i < n; ++i) {
        const std::uint64_t mixed = (i + seed) * 2654435761u;
        found[i] = static_cast<int>((mixed >> 7) % 1000003 % static_cast<std::uint64_t>(below));
    }
    return found;
}

/// Measures the computing time of a program, from its inputs to its results, and prints it to standard error.
class Clock {
    std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();

public:
    void stop() const {
        const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start_;
        std::fprintf(stderr, "%.9f\n", seconds.count());
    }
};

inline void print_one(double value) { std::printf(" %.17g", value); }
inline void print_one(float value) { std::printf(" %.17g", static_cast<double>(value)); }
inline void print_one(int value) { std::printf(" %d", value); }
inline void print_one(long value) { std::printf(" %ld", value); }

/// Whether results are printed; only those of the first size are.
inline bool is_printed = true;

/// Prints a line with a name and numbers.
template <class It>
void print(const char* name, It first, It last) {
    if (!is_printed) return;
    std::printf("%s", name);
    for (; first != last; ++first) print_one(static_cast<typename std::iterator_traits<It>::value_type>(*first));
    std::printf("\n");
}
template <class T>
void print(const char* name, T value) {
    if (!is_printed) return;
    std::printf("%s", name);
    print_one(value);
    std::printf("\n");
}

void run(std::size_t n);

/// Runs an application for each size on the command line.
inline void run_each(char** sizes) {
    for (; *sizes != nullptr; ++sizes, is_printed = false) run(std::strtoul(*sizes, nullptr, 10));
}
