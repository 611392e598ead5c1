// Thrust's pairs, tuples and functors.
#pragma once

#include <cmath>
#include <functional>
#include <tuple>
#include <type_traits>
#include <utility>

namespace thrust {

using std::get;
using std::ignore;
using std::make_pair;
using std::make_tuple;
using std::pair;
using std::swap;
using std::tie;
using std::tuple;
using std::tuple_element;
using std::tuple_size;

struct null_type {};

using std::bit_and;
using std::bit_or;
using std::bit_xor;
using std::divides;
using std::equal_to;
using std::greater;
using std::greater_equal;
using std::less;
using std::less_equal;
using std::logical_and;
using std::logical_not;
using std::logical_or;
using std::minus;
using std::modulus;
using std::multiplies;
using std::negate;
using std::not_equal_to;
using std::plus;

template <class T = void>
struct maximum {
    T operator()(const T& a, const T& b) const { return a < b ? b : a; }
};
template <>
struct maximum<void> {
    template <class T, class U>
    std::common_type_t<T, U> operator()(const T& a, const U& b) const {
        return a < b ? b : a;
    }
};
template <class T = void>
struct minimum {
    T operator()(const T& a, const T& b) const { return b < a ? b : a; }
};
template <>
struct minimum<void> {
    template <class T, class U>
    std::common_type_t<T, U> operator()(const T& a, const U& b) const {
        return b < a ? b : a;
    }
};
template <class T = void>
struct identity {
    const T& operator()(const T& x) const { return x; }
};
template <>
struct identity<void> {
    template <class T>
    T operator()(T&& x) const {
        return x;
    }
};
template <class T = void>
struct square {
    T operator()(const T& x) const { return x * x; }
};
template <>
struct square<void> {
    template <class T>
    auto operator()(const T& x) const {
        return x * x;
    }
};
template <class Predicate>
struct unary_negate {
    Predicate predicate;
    template <class T>
    bool operator()(const T& x) const {
        return !predicate(x);
    }
};
template <class Predicate>
unary_negate<Predicate> not1(Predicate predicate) {
    return {predicate};
}

// Bases from which the functors of sources inherit.
template <class Argument, class Result>
struct unary_function {
    using argument_type = Argument;
    using result_type = Result;
};
template <class First, class Second, class Result>
struct binary_function {
    using first_argument_type = First;
    using second_argument_type = Second;
    using result_type = Result;
};

template <class T>
T max(const T& a, const T& b) {
    return a < b ? b : a;
}
template <class T>
T min(const T& a, const T& b) {
    return b < a ? b : a;
}


}  // namespace thrust
