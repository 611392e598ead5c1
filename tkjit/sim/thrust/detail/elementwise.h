// Thrust's algorithms that handle each element separately.
#pragma once

#include "algorithm.h"

namespace thrust {
namespace detail::algorithms {

struct copy {
    template <class In, class Out>
    Out operator()(In first, In last, Out out) const {
        for (; first != last; ++first, ++out) *out = *first;
        return out;
    }
};
struct copy_n {
    template <class In, class Size, class Out>
    Out operator()(In first, Size count, Out out) const {
        for (Size i = 0; i < count; ++i, ++first, ++out) *out = *first;
        return out;
    }
};
struct fill {
    template <class Out, class T>
    void operator()(Out first, Out last, const T& value) const {
        for (; first != last; ++first) *first = value;
    }
};
struct fill_n {
    template <class Out, class Size, class T>
    Out operator()(Out first, Size count, const T& value) const {
        for (Size i = 0; i < count; ++i, ++first) *first = value;
        return first;
    }
};
struct sequence {
    template <class Out>
    void operator()(Out first, Out last) const {
        (*this)(first, last, std::iter_value_t<Out>(0), std::iter_value_t<Out>(1));
    }
    template <class Out, class T>
    void operator()(Out first, Out last, T start) const {
        (*this)(first, last, start, T(1));
    }
    template <class Out, class T>
    void operator()(Out first, Out last, T start, T step) const {
        for (std::ptrdiff_t i = 0; first != last; ++first, ++i) *first = static_cast<T>(start + T(i) * step);
    }
};
struct tabulate {
    template <class Out, class Function>
    void operator()(Out first, Out last, Function function) const {
        for (std::ptrdiff_t i = 0; first != last; ++first, ++i) *first = function(i);
    }
};
struct generate {
    template <class Out, class Function>
    void operator()(Out first, Out last, Function function) const {
        for (; first != last; ++first) *first = function();
    }
};
struct for_each {
    template <class In, class Function>
    In operator()(In first, In last, Function function) const {
        for (; first != last; ++first) function(*first);
        return first;
    }
};
struct for_each_n {
    template <class In, class Size, class Function>
    In operator()(In first, Size count, Function function) const {
        for (Size i = 0; i < count; ++i, ++first) function(*first);
        return first;
    }
};
struct transform {
    template <class In, class Out, class Function>
    Out operator()(In first, In last, Out out, Function function) const {
        for (; first != last; ++first, ++out) *out = function(*first);
        return out;
    }
    template <class In, class Second, class Out, class Function>
    Out operator()(In first, In last, Second second, Out out, Function function) const {
        for (; first != last; ++first, ++second, ++out) *out = function(*first, *second);
        return out;
    }
};
struct transform_if {
    template <class In, class Out, class Function, class Predicate>
    Out operator()(In first, In last, Out out, Function function, Predicate predicate) const {
        for (; first != last; ++first, ++out) {
            if (predicate(*first)) *out = function(*first);
        }
        return out;
    }
    template <class In, class Stencil, class Out, class Function, class Predicate>
    Out operator()(In first, In last, Stencil stencil, Out out, Function function, Predicate predicate) const {
        for (; first != last; ++first, ++stencil, ++out) {
            if (predicate(*stencil)) *out = function(*first);
        }
        return out;
    }
};
struct replace {
    template <class Data, class T>
    void operator()(Data first, Data last, const T& old, const T& value) const {
        for (; first != last; ++first) {
            if (*first == old) *first = value;
        }
    }
};
struct replace_if {
    template <class Data, class Predicate, class T>
    void operator()(Data first, Data last, Predicate predicate, const T& value) const {
        for (; first != last; ++first) {
            if (predicate(*first)) *first = value;
        }
    }
};
struct gather {
    template <class Map, class In, class Out>
    Out operator()(Map first, Map last, In in, Out out) const {
        for (; first != last; ++first, ++out) *out = in[*first];
        return out;
    }
};
struct scatter {
    template <class In, class Map, class Out>
    void operator()(In first, In last, Map map, Out out) const {
        for (; first != last; ++first, ++map) out[*map] = *first;
    }
};
struct swap_ranges {
    template <class A, class B>
    B operator()(A first, A last, B other) const {
        for (; first != last; ++first, ++other) {
            const std::iter_value_t<A> value = *first;
            *first = *other;
            *other = value;
        }
        return other;
    }
};
struct reverse {
    template <class Data>
    void operator()(Data first, Data last) const {
        while (first != last && first != --last) {
            const std::iter_value_t<Data> value = *first;
            *first = *last;
            *last = value;
            ++first;
        }
    }
};
struct adjacent_difference {
    template <class In, class Out, class Function = std::minus<>>
    Out operator()(In first, In last, Out out, Function function = {}) const {
        if (first == last) return out;
        std::iter_value_t<In> before = *first;
        *out = before;
        for (++out, ++first; first != last; ++first, ++out) {
            const std::iter_value_t<In> value = *first;
            *out = function(value, before);
            before = value;
        }
        return out;
    }
};

}  // namespace detail::algorithms

TKJIT_SIM_THRUST(copy)
TKJIT_SIM_THRUST(copy_n)
TKJIT_SIM_THRUST(fill)
TKJIT_SIM_THRUST(fill_n)
TKJIT_SIM_THRUST(sequence)
TKJIT_SIM_THRUST(tabulate)
TKJIT_SIM_THRUST(generate)
TKJIT_SIM_THRUST(for_each)
TKJIT_SIM_THRUST(for_each_n)
TKJIT_SIM_THRUST(transform)
TKJIT_SIM_THRUST(transform_if)
TKJIT_SIM_THRUST(replace)
TKJIT_SIM_THRUST(replace_if)
TKJIT_SIM_THRUST(gather)
TKJIT_SIM_THRUST(scatter)
TKJIT_SIM_THRUST(swap_ranges)
TKJIT_SIM_THRUST(reverse)
TKJIT_SIM_THRUST(adjacent_difference)

}  // namespace thrust
