// Thrust's algorithms that sort, search sorted ranges, or remove elements.
#pragma once

#include "algorithm.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace thrust {
namespace detail::algorithms {

/// Puts the elements of a range into the order given by indices.
template <class Data>
void permute(Data first, const std::vector<std::ptrdiff_t>& order) {
    std::vector<std::iter_value_t<Data>> sorted;
    sorted.reserve(order.size());
    for (const std::ptrdiff_t i : order) sorted.push_back(first[i]);
    for (const auto& item : sorted) {
        *first = item;
        ++first;
    }
}
/// Returns the indices of the keys in a stable order. Keys are copied first, because one may consist of elements of
/// several arrays.
template <class Keys, class Less>
std::vector<std::ptrdiff_t> sorted_indices(Keys first, Keys last, Less less) {
    const std::vector<std::iter_value_t<Keys>> keys(first, last);
    std::vector<std::ptrdiff_t> order(keys.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::ptrdiff_t a, std::ptrdiff_t b) { return less(keys[a], keys[b]); });
    return order;
}

struct sort {
    template <class Data, class Less = std::less<>>
    void operator()(Data first, Data last, Less less = {}) const {
        permute(first, sorted_indices(first, last, less));
    }
};
using stable_sort = sort;
struct sort_by_key {
    template <class Keys, class Values, class Less = std::less<>>
    void operator()(Keys first, Keys last, Values values, Less less = {}) const {
        const std::vector<std::ptrdiff_t> order = sorted_indices(first, last, less);
        permute(first, order);
        permute(values, order);
    }
};
using stable_sort_by_key = sort_by_key;

struct copy_if {
    template <class In, class Out, class Predicate>
    Out operator()(In first, In last, Out out, Predicate predicate) const {
        return (*this)(first, last, first, out, predicate);
    }
    template <class In, class Stencil, class Out, class Predicate>
    Out operator()(In first, In last, Stencil stencil, Out out, Predicate predicate) const {
        for (; first != last; ++first, ++stencil) {
            if (!predicate(*stencil)) continue;
            *out = *first;
            ++out;
        }
        return out;
    }
};
struct remove_if {
    template <class Data, class Predicate>
    Data operator()(Data first, Data last, Predicate predicate) const {
        return (*this)(first, last, first, predicate);
    }
    template <class Data, class Stencil, class Predicate>
    Data operator()(Data first, Data last, Stencil stencil, Predicate predicate) const {
        return copy_if()(first, last, stencil, first, [&](const auto& item) { return !predicate(item); });
    }
};
struct remove_copy_if {
    template <class In, class Out, class Predicate>
    Out operator()(In first, In last, Out out, Predicate predicate) const {
        return copy_if()(first, last, out, [&](const auto& item) { return !predicate(item); });
    }
};
struct remove {
    template <class Data, class T>
    Data operator()(Data first, Data last, const T& value) const {
        return remove_if()(first, last, [&](const auto& item) { return item == value; });
    }
};
struct unique_copy {
    template <class In, class Out, class Equal = std::equal_to<>>
    Out operator()(In first, In last, Out out, Equal equal = {}) const {
        if (first == last) return out;
        std::iter_value_t<In> before = *first;
        *out = before;
        for (++out, ++first; first != last; ++first) {
            const std::iter_value_t<In> item = *first;
            if (equal(before, item)) continue;
            *out = item;
            ++out;
            before = item;
        }
        return out;
    }
};
struct unique {
    template <class Data, class Equal = std::equal_to<>>
    Data operator()(Data first, Data last, Equal equal = {}) const {
        return unique_copy()(first, last, first, equal);
    }
};
struct unique_by_key {
    template <class Keys, class Values, class Equal = std::equal_to<>>
    pair<Keys, Values> operator()(Keys first, Keys last, Values values, Equal equal = {}) const {
        const std::ptrdiff_t count = last - first;
        std::ptrdiff_t kept = 0;
        for (std::ptrdiff_t i = 0; i < count; ++i) {
            if (kept > 0 && equal(first[kept - 1], first[i])) continue;
            first[kept] = static_cast<std::iter_value_t<Keys>>(first[i]);
            values[kept] = static_cast<std::iter_value_t<Values>>(values[i]);
            ++kept;
        }
        return {first + kept, values + kept};
    }
};
struct partition {
    template <class Data, class Predicate>
    Data operator()(Data first, Data last, Predicate predicate) const {
        std::vector<std::ptrdiff_t> order, others;
        for (std::ptrdiff_t i = 0; i < last - first; ++i) (predicate(first[i]) ? order : others).push_back(i);
        const std::ptrdiff_t wanted = static_cast<std::ptrdiff_t>(order.size());
        order.insert(order.end(), others.begin(), others.end());
        permute(first, order);
        return first + wanted;
    }
};
using stable_partition = partition;
struct merge {
    template <class A, class B, class Out, class Less = std::less<>>
    Out operator()(A a, A a_end, B b, B b_end, Out out, Less less = {}) const {
        for (; a != a_end || b != b_end; ++out) {
            if (b != b_end && (a == a_end || less(*b, *a))) {
                *out = *b;
                ++b;
            } else {
                *out = *a;
                ++a;
            }
        }
        return out;
    }
};

/// The first element of a sorted range for which `goes_on` does not hold; it holds for all before.
template <class Data, class Predicate>
Data partition_of(Data first, Data last, Predicate goes_on) {
    std::ptrdiff_t low = 0, high = last - first;
    while (low < high) {
        const std::ptrdiff_t middle = low + (high - low) / 2;
        if (goes_on(first[middle])) low = middle + 1;
        else high = middle;
    }
    return first + low;
}
/// Searches for one value, or for each of a range of values.
template <class Self>
struct search {
    template <class Data, class T>
    auto operator()(Data first, Data last, const T& value) const {
        return Self::one(first, last, value, std::less<>());
    }
    template <class Data, class T, class Less>
    auto operator()(Data first, Data last, const T& value, Less less) const {
        return Self::one(first, last, value, less);
    }
    template <class Data, class Values, class Out>
        requires requires(Values values) { *values; }
    Out operator()(Data first, Data last, Values value, Values values_end, Out out) const {
        return (*this)(first, last, value, values_end, out, std::less<>());
    }
    template <class Data, class Values, class Out, class Less>
    Out operator()(Data first, Data last, Values value, Values values_end, Out out, Less less) const {
        for (; value != values_end; ++value, ++out) *out = Self::result(first, Self::one(first, last, *value, less));
        return out;
    }
    template <class Data>
    static std::ptrdiff_t result(Data first, Data found) {
        return found - first;
    }
    template <class Data>
    static bool result(Data, bool found) {
        return found;
    }
};
struct lower_bound : search<lower_bound> {
    template <class Data, class T, class Less>
    static Data one(Data first, Data last, const T& value, Less less) {
        return partition_of(first, last, [&](const auto& item) { return less(item, value); });
    }
};
struct upper_bound : search<upper_bound> {
    template <class Data, class T, class Less>
    static Data one(Data first, Data last, const T& value, Less less) {
        return partition_of(first, last, [&](const auto& item) { return !less(value, item); });
    }
};
struct binary_search : search<binary_search> {
    template <class Data, class T, class Less>
    static bool one(Data first, Data last, const T& value, Less less) {
        const Data found = lower_bound::one(first, last, value, less);
        return found != last && !less(value, *found);
    }
};

}  // namespace detail::algorithms

TKJIT_SIM_THRUST(sort)
TKJIT_SIM_THRUST(stable_sort)
TKJIT_SIM_THRUST(sort_by_key)
TKJIT_SIM_THRUST(stable_sort_by_key)
TKJIT_SIM_THRUST(copy_if)
TKJIT_SIM_THRUST(remove)
TKJIT_SIM_THRUST(remove_if)
TKJIT_SIM_THRUST(remove_copy_if)
TKJIT_SIM_THRUST(unique)
TKJIT_SIM_THRUST(unique_copy)
TKJIT_SIM_THRUST(unique_by_key)
TKJIT_SIM_THRUST(partition)
TKJIT_SIM_THRUST(stable_partition)
TKJIT_SIM_THRUST(merge)
TKJIT_SIM_THRUST(lower_bound)
TKJIT_SIM_THRUST(upper_bound)
TKJIT_SIM_THRUST(binary_search)

}  // namespace thrust
