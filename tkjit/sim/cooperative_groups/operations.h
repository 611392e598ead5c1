// The operations with which a reduction or a scan combines two values.
#pragma once

#include "../cooperative_groups.h"

namespace cooperative_groups {

#define TKJIT_SIM_GROUP_OPERATION(name, expression)                         \
    template <class T = void>                                               \
    struct name {                                                           \
        T operator()(const T& a, const T& b) const { return expression; }   \
    };                                                                      \
    template <>                                                             \
    struct name<void> {                                                     \
        template <class T>                                                  \
        T operator()(const T& a, const T& b) const {                        \
            return expression;                                              \
        }                                                                   \
    };
TKJIT_SIM_GROUP_OPERATION(plus, a + b)
TKJIT_SIM_GROUP_OPERATION(less, b < a ? b : a)
TKJIT_SIM_GROUP_OPERATION(greater, a < b ? b : a)
TKJIT_SIM_GROUP_OPERATION(bit_and, a & b)
TKJIT_SIM_GROUP_OPERATION(bit_or, a | b)
TKJIT_SIM_GROUP_OPERATION(bit_xor, a ^ b)
#undef TKJIT_SIM_GROUP_OPERATION

namespace detail {

/// The operation that error messages name for a reduction. For a user's own operation, they name the sum.
template <class Combine>
struct reduction {
    static constexpr Operation operation = Operation::reduce_add;
};
#define TKJIT_SIM_GROUP_REDUCTION(name, enumerator)                         \
    template <class T>                                                      \
    struct reduction<name<T>> {                                             \
        static constexpr Operation operation = Operation::enumerator;       \
    };
TKJIT_SIM_GROUP_REDUCTION(less, reduce_min)
TKJIT_SIM_GROUP_REDUCTION(greater, reduce_max)
TKJIT_SIM_GROUP_REDUCTION(bit_and, reduce_and)
TKJIT_SIM_GROUP_REDUCTION(bit_or, reduce_or)
TKJIT_SIM_GROUP_REDUCTION(bit_xor, reduce_xor)
#undef TKJIT_SIM_GROUP_REDUCTION

template <class T>
struct plain { using type = T; };
template <class T>
struct plain<T&> { using type = T; };
template <class T>
struct plain<const T&> { using type = T; };

template <class Combine>
constexpr Operation operation_of() {
    return reduction<typename plain<Combine>::type>::operation;
}

}  // namespace detail
}  // namespace cooperative_groups
