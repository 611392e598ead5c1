// Whether two strided tensors with interleaved memory share an element. The q, k and v of one packed tensor do not.
#pragma once

#include <tkjit/call/dtypes.h>
#include <tkjit/call/view.h>

#include <algorithm>
#include <cstdint>

namespace tkjit {

// Searches for integers 0 <= x_i <= count_i with x_1 stride_1 + x_2 stride_2 + ... = sum. It starts with the largest
// stride: the remainder must be within reach of the smaller strides, which leaves few values to try.
class BoundedSum {
public:
    // Skips dims that add nothing to the sum, and merges dims with the same stride.
    void add(int64_t count, int64_t stride) {
        if (count <= 0 || stride <= 0) return;
        for (int i = 0; i < size_; ++i)
            if (terms_[i].stride == stride) return void(terms_[i].count += count);
        terms_[size_++] = {count, stride, 0};
    }

    // Gives up after kMostSteps steps and returns false.
    bool reaches(int64_t sum) {
        std::sort(terms_, terms_ + size_, [](const Term& a, const Term& b) { return a.stride > b.stride; });
        for (int i = size_; i-- > 0;) terms_[i].reach = terms_[i].count * terms_[i].stride + (i + 1 < size_ ? terms_[i + 1].reach : 0);
        steps_ = 0;
        return search(0, sum);
    }

private:
    struct Term {
        int64_t count, stride;
        int64_t reach;  // the largest sum of this term and all with smaller strides
    };
    static constexpr int kMostSteps = 10'000;  // about 50 us

    bool search(int i, int64_t rest) {
        if (rest == 0) return true;
        if (i == size_ || rest < 0 || rest > terms_[i].reach || ++steps_ > kMostSteps) return false;
        const int64_t stride = terms_[i].stride, below = i + 1 < size_ ? terms_[i + 1].reach : 0;
        const int64_t least = rest > below ? (rest - below + stride - 1) / stride : 0;
        for (int64_t x = std::min(terms_[i].count, rest / stride); x >= least && steps_ <= kMostSteps; --x)
            if (search(i + 1, rest - x * stride)) return true;
        return false;
    }

    Term terms_[2 * kMaxRank + 2];
    int size_ = 0;
    int steps_ = 0;
};

// Whether two elements of a tensor may share an address. They cannot if each stride exceeds the reach of smaller ones.
inline bool overlaps_itself(const TensorView& view) {
    int dims[kMaxRank], count = 0;
    for (int i = 0; i < view.ndim; ++i) {
        if (view.sizes[i] == 0) return false;
        if (view.sizes[i] > 1) dims[count++] = i;
    }
    std::sort(dims, dims + count, [&](int a, int b) { return view.strides[a] < view.strides[b]; });
    int64_t reach = 0;
    for (int i = 0; i < count; ++i) {
        if (view.strides[dims[i]] <= reach) return true;
        reach += (view.sizes[dims[i]] - 1) * view.strides[dims[i]];
    }
    return false;
}

inline int64_t row_major_stride(const TensorView& view, int dim) {
    int64_t stride = 1;
    for (int i = view.ndim; --i > dim;) stride *= view.sizes[i];
    return stride;
}

// Looks for a byte of `view` with the same address as a byte of `other`. The indices of `other` count from its end, so
// that all terms of the sum are positive.
inline bool overlap(const TensorView& view, const TensorView& other) {
    BoundedSum sum;
    int64_t wanted = int64_t(reinterpret_cast<uintptr_t>(other.data) - reinterpret_cast<uintptr_t>(view.data));
    const auto add = [&](const TensorView& tensor) {
        int64_t last = 0;
        const int64_t itemsize = bytes_of(tensor.dtype);
        for (int i = 0; i < tensor.ndim; ++i) {
            const int64_t stride = itemsize * (tensor.strided ? tensor.strides[i] : row_major_stride(tensor, i));
            sum.add(tensor.sizes[i] - 1, stride);
            last += (tensor.sizes[i] - 1) * stride;
        }
        sum.add(itemsize - 1, 1);
        return last + itemsize - 1;
    };
    add(view);
    wanted += add(other);
    return sum.reaches(wanted);
}

}  // namespace tkjit
