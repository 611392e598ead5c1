// Reductions of a thread's own items.
#pragma once

#include "../detail/thread.cuh"
#include "thread_operators.cuh"

namespace cub {

template <class T, int N, class ReductionOp>
T ThreadReduce(const T (&input)[N], ReductionOp op) {
    return detail::reduce_items(input, op);
}
template <class T, int N, class ReductionOp, class Prefix>
T ThreadReduce(const T (&input)[N], ReductionOp op, Prefix prefix) {
    return op(static_cast<T>(prefix), detail::reduce_items(input, op));
}

}  // namespace cub
