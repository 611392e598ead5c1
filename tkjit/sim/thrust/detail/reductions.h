// Thrust's reductions, scans and queries of a range.
#pragma once

#include "algorithm.h"

namespace thrust {
namespace detail::algorithms {

struct reduce {
    template <class In>
    std::iter_value_t<In> operator()(In first, In last) const {
        return (*this)(first, last, std::iter_value_t<In>());
    }
    template <class In, class T, class Function = std::plus<>>
    T operator()(In first, In last, T init, Function function = {}) const {
        for (; first != last; ++first) init = function(init, *first);
        return init;
    }
};
struct transform_reduce {
    template <class In, class Transform, class T, class Function>
    T operator()(In first, In last, Transform transform, T init, Function function) const {
        for (; first != last; ++first) init = function(init, transform(*first));
        return init;
    }
};
struct inner_product {
    template <class A, class B, class T, class Add = std::plus<>, class Multiply = std::multiplies<>>
    T operator()(A first, A last, B other, T init, Add add = {}, Multiply multiply = {}) const {
        for (; first != last; ++first, ++other) init = add(init, multiply(*first, *other));
        return init;
    }
};
struct count_if {
    template <class In, class Predicate>
    std::ptrdiff_t operator()(In first, In last, Predicate predicate) const {
        std::ptrdiff_t found = 0;
        for (; first != last; ++first) found += predicate(*first) ? 1 : 0;
        return found;
    }
};
struct count {
    template <class In, class T>
    std::ptrdiff_t operator()(In first, In last, const T& value) const {
        return count_if()(first, last, [&](const auto& item) { return item == value; });
    }
};
struct min_element {
    template <class In, class Less = std::less<>>
    In operator()(In first, In last, Less less = {}) const {
        In best = first;
        for (; first != last; ++first) {
            if (less(*first, *best)) best = first;
        }
        return best;
    }
};
struct max_element {
    template <class In, class Less = std::less<>>
    In operator()(In first, In last, Less less = {}) const {
        In best = first;
        for (; first != last; ++first) {
            if (less(*best, *first)) best = first;
        }
        return best;
    }
};
struct minmax_element {
    template <class In, class Less = std::less<>>
    pair<In, In> operator()(In first, In last, Less less = {}) const {
        return {min_element()(first, last, less), max_element()(first, last, less)};
    }
};
struct find_if {
    template <class In, class Predicate>
    In operator()(In first, In last, Predicate predicate) const {
        while (first != last && !predicate(*first)) ++first;
        return first;
    }
};
struct find_if_not {
    template <class In, class Predicate>
    In operator()(In first, In last, Predicate predicate) const {
        while (first != last && predicate(*first)) ++first;
        return first;
    }
};
struct find {
    template <class In, class T>
    In operator()(In first, In last, const T& value) const {
        return find_if()(first, last, [&](const auto& item) { return item == value; });
    }
};
struct any_of {
    template <class In, class Predicate>
    bool operator()(In first, In last, Predicate predicate) const {
        return find_if()(first, last, predicate) != last;
    }
};
struct none_of {
    template <class In, class Predicate>
    bool operator()(In first, In last, Predicate predicate) const {
        return find_if()(first, last, predicate) == last;
    }
};
struct all_of {
    template <class In, class Predicate>
    bool operator()(In first, In last, Predicate predicate) const {
        return find_if_not()(first, last, predicate) == last;
    }
};
struct mismatch {
    template <class A, class B, class Equal = std::equal_to<>>
    pair<A, B> operator()(A first, A last, B other, Equal equal = {}) const {
        while (first != last && equal(*first, *other)) ++first, ++other;
        return {first, other};
    }
};
struct equal {
    template <class A, class B, class Equal = std::equal_to<>>
    bool operator()(A first, A last, B other, Equal equal = {}) const {
        return mismatch()(first, last, other, equal).first == last;
    }
};
struct is_sorted {
    template <class In, class Less = std::less<>>
    bool operator()(In first, In last, Less less = {}) const {
        if (first == last) return true;
        for (In next = first; ++next != last; first = next) {
            if (less(*next, *first)) return false;
        }
        return true;
    }
};

struct inclusive_scan {
    template <class In, class Out, class Function = std::plus<>>
    Out operator()(In first, In last, Out out, Function function = {}) const {
        if (first == last) return out;
        std::iter_value_t<In> total = *first;
        *out = total;
        for (++out, ++first; first != last; ++first, ++out) *out = total = function(total, *first);
        return out;
    }
};
struct exclusive_scan {
    template <class In, class Out>
    Out operator()(In first, In last, Out out) const {
        return (*this)(first, last, out, std::iter_value_t<In>());
    }
    template <class In, class Out, class T, class Function = std::plus<>>
    Out operator()(In first, In last, Out out, T init, Function function = {}) const {
        for (; first != last; ++first, ++out) {
            const T next = function(init, *first);
            *out = init;
            init = next;
        }
        return out;
    }
};
struct transform_inclusive_scan {
    template <class In, class Out, class Transform, class Function>
    Out operator()(In first, In last, Out out, Transform transform, Function function) const {
        return inclusive_scan()(make_transform_iterator(first, transform), make_transform_iterator(first, transform) + (last - first),
                                out, function);
    }
};
struct transform_exclusive_scan {
    template <class In, class Out, class Transform, class T, class Function>
    Out operator()(In first, In last, Out out, Transform transform, T init, Function function) const {
        return exclusive_scan()(make_transform_iterator(first, transform), make_transform_iterator(first, transform) + (last - first),
                                out, init, function);
    }
};

/// Calls `visit(begin, end)` for each run of equal keys.
template <class Keys, class Equal, class Visit>
void for_each_run(Keys first, Keys last, Equal equal, Visit visit) {
    const std::ptrdiff_t count = last - first;
    for (std::ptrdiff_t begin = 0, end; begin < count; begin = end) {
        for (end = begin + 1; end < count && equal(first[end - 1], first[end]);) ++end;
        visit(begin, end);
    }
}
struct inclusive_scan_by_key {
    template <class Keys, class In, class Out, class Equal = std::equal_to<>, class Function = std::plus<>>
    Out operator()(Keys first, Keys last, In in, Out out, Equal equal = {}, Function function = {}) const {
        for_each_run(first, last, equal, [&](std::ptrdiff_t begin, std::ptrdiff_t end) {
            inclusive_scan()(in + begin, in + end, out + begin, function);
        });
        return out + (last - first);
    }
};
struct exclusive_scan_by_key {
    template <class Keys, class In, class Out>
    Out operator()(Keys first, Keys last, In in, Out out) const {
        return (*this)(first, last, in, out, std::iter_value_t<In>());
    }
    template <class Keys, class In, class Out, class T, class Equal = std::equal_to<>, class Function = std::plus<>>
    Out operator()(Keys first, Keys last, In in, Out out, T init, Equal equal = {}, Function function = {}) const {
        for_each_run(first, last, equal, [&](std::ptrdiff_t begin, std::ptrdiff_t end) {
            exclusive_scan()(in + begin, in + end, out + begin, init, function);
        });
        return out + (last - first);
    }
};
struct reduce_by_key {
    template <class Keys, class In, class KeysOut, class Out, class Equal = std::equal_to<>, class Function = std::plus<>>
    pair<KeysOut, Out> operator()(Keys first, Keys last, In in, KeysOut keys, Out out, Equal equal = {},
                                  Function function = {}) const {
        for_each_run(first, last, equal, [&](std::ptrdiff_t begin, std::ptrdiff_t end) {
            std::iter_value_t<In> total = in[begin];
            for (std::ptrdiff_t i = begin + 1; i < end; ++i) total = function(total, in[i]);
            *keys = first[begin];
            *out = total;
            ++keys, ++out;
        });
        return {keys, out};
    }
};

}  // namespace detail::algorithms

TKJIT_SIM_THRUST(reduce)
TKJIT_SIM_THRUST(transform_reduce)
TKJIT_SIM_THRUST(inner_product)
TKJIT_SIM_THRUST(count)
TKJIT_SIM_THRUST(count_if)
TKJIT_SIM_THRUST(min_element)
TKJIT_SIM_THRUST(max_element)
TKJIT_SIM_THRUST(minmax_element)
TKJIT_SIM_THRUST(find)
TKJIT_SIM_THRUST(find_if)
TKJIT_SIM_THRUST(find_if_not)
TKJIT_SIM_THRUST(any_of)
TKJIT_SIM_THRUST(none_of)
TKJIT_SIM_THRUST(all_of)
TKJIT_SIM_THRUST(mismatch)
TKJIT_SIM_THRUST(equal)
TKJIT_SIM_THRUST(is_sorted)
TKJIT_SIM_THRUST(inclusive_scan)
TKJIT_SIM_THRUST(exclusive_scan)
TKJIT_SIM_THRUST(transform_inclusive_scan)
TKJIT_SIM_THRUST(transform_exclusive_scan)
TKJIT_SIM_THRUST(inclusive_scan_by_key)
TKJIT_SIM_THRUST(exclusive_scan_by_key)
TKJIT_SIM_THRUST(reduce_by_key)

}  // namespace thrust
