// CUB's operators for reductions and scans.
#pragma once

#include "../../cuda/functional"
#include "../../cuda/std/functional"
#include "../util_type.cuh"

namespace cub {

struct Equality {
    template <class T, class U>
    bool operator()(T&& a, U&& b) const {
        return a == b;
    }
};
struct Inequality {
    template <class T, class U>
    bool operator()(T&& a, U&& b) const {
        return a != b;
    }
};
template <class EqualityOp>
struct InequalityWrapper {
    EqualityOp op;

    explicit InequalityWrapper(EqualityOp op) : op(op) {}
    template <class T, class U>
    bool operator()(T&& a, U&& b) {
        return !op(a, b);
    }
};

// The names from before CUB 3.0, which programs still use.
struct Sum {
    template <class T, class U>
    auto operator()(T&& a, U&& b) const {
        return a + b;
    }
};
struct Difference {
    template <class T, class U>
    auto operator()(T&& a, U&& b) const {
        return a - b;
    }
};
struct Division {
    template <class T, class U>
    auto operator()(T&& a, U&& b) const {
        return a / b;
    }
};
struct Max {
    template <class T, class U>
    std::common_type_t<T, U> operator()(T&& a, U&& b) const {
        return a < b ? b : a;
    }
};
struct Min {
    template <class T, class U>
    std::common_type_t<T, U> operator()(T&& a, U&& b) const {
        return b < a ? b : a;
    }
};
using Mul = ::cuda::std::multiplies<>;

// For pairs whose key is the index. Of equal values, the one with the lower index is taken.
struct ArgMax {
    template <class T, class Offset>
    KeyValuePair<Offset, T> operator()(const KeyValuePair<Offset, T>& a, const KeyValuePair<Offset, T>& b) const {
        return b.value > a.value || (a.value == b.value && b.key < a.key) ? b : a;
    }
};
struct ArgMin {
    template <class T, class Offset>
    KeyValuePair<Offset, T> operator()(const KeyValuePair<Offset, T>& a, const KeyValuePair<Offset, T>& b) const {
        return b.value < a.value || (a.value == b.value && b.key < a.key) ? b : a;
    }
};

template <class B>
struct CastOp {
    template <class A>
    B operator()(A&& a) const {
        return static_cast<B>(a);
    }
};
template <class ScanOp>
class SwizzleScanOp {
    ScanOp op;

  public:
    explicit SwizzleScanOp(ScanOp op) : op(op) {}
    template <class T>
    T operator()(const T& a, const T& b) {
        return op(b, a);
    }
};

/// Reduces pairs whose key counts the segments that begin in it. If a segment begins in the second pair, the result has
/// only the second pair's value.
template <class ReductionOp>
struct ReduceBySegmentOp {
    ReductionOp op;

    ReduceBySegmentOp() = default;
    explicit ReduceBySegmentOp(ReductionOp op) : op(op) {}
    template <class Pair>
    Pair operator()(const Pair& first, const Pair& second) {
        return Pair(first.key + second.key, second.key ? second.value : op(first.value, second.value));
    }
};
/// Reduces the values of equal keys.
template <class ReductionOp>
struct ReduceByKeyOp {
    ReductionOp op;

    ReduceByKeyOp() = default;
    explicit ReduceByKeyOp(ReductionOp op) : op(op) {}
    template <class Pair>
    Pair operator()(const Pair& first, const Pair& second) {
        return first.key == second.key ? Pair(first.key, op(first.value, second.value)) : second;
    }
};

}  // namespace cub
