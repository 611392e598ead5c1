// Tensors as arrays of arrays: accessor<T, N>() for the host, packed_accessor32<T, N>() as a kernel's argument.
#pragma once

#include "tensor.h"

namespace at {
inline namespace tkjit_stand_in {

template <class T>
struct DefaultPtrTraits {
    using PtrType = T*;
};
template <class T>
struct RestrictPtrTraits {
    using PtrType = T* __restrict__;
};

/// What lies behind the first index of an array: a view of sizes and strides that somebody else keeps.
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits, class Index = int64_t>
class TensorAccessor {
public:
    C10_HOST_DEVICE TensorAccessor(typename Traits<T>::PtrType data, const Index* sizes, const Index* strides)
        : data_(data), sizes_(sizes), strides_(strides) {}
    C10_HOST_DEVICE decltype(auto) operator[](Index i) const {
        if constexpr (N == 1)
            return static_cast<T&>(data_[strides_[0] * i]);
        else
            return TensorAccessor<T, N - 1, Traits, Index>(data_ + strides_[0] * i, sizes_ + 1, strides_ + 1);
    }
    C10_HOST_DEVICE Index size(Index i) const { return sizes_[i]; }
    C10_HOST_DEVICE Index stride(Index i) const { return strides_[i]; }
    C10_HOST_DEVICE T* data() const { return data_; }

private:
    typename Traits<T>::PtrType data_;
    const Index* sizes_;
    const Index* strides_;
};

/// The same with its own sizes and strides, so that it can be passed to a kernel, or outlive its tensor's.
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits, class Index = int64_t>
class PackedTensorAccessor {
public:
    PackedTensorAccessor(T* data, IntArrayRef sizes, IntArrayRef strides) : data_(data) {
        for (size_t i = 0; i < N; ++i) {
            sizes_[i] = Index(sizes[i]);
            strides_[i] = Index(strides[i]);
        }
    }
    C10_HOST_DEVICE decltype(auto) operator[](Index i) const {
        return TensorAccessor<T, N, Traits, Index>(data_, sizes_, strides_)[i];
    }
    C10_HOST_DEVICE Index size(Index i) const { return sizes_[i]; }
    C10_HOST_DEVICE Index stride(Index i) const { return strides_[i]; }
    C10_HOST_DEVICE T* data() const { return data_; }

private:
    typename Traits<T>::PtrType data_;
    Index sizes_[N], strides_[N];
};
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits>
using PackedTensorAccessor32 = PackedTensorAccessor<T, N, Traits, int32_t>;
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits>
using PackedTensorAccessor64 = PackedTensorAccessor<T, N, Traits, int64_t>;

template <class T, size_t N>
PackedTensorAccessor<T, N> Tensor::accessor() const {
    return packed_accessor64<T, N>();
}
template <class T, size_t N, template <class> class Traits>
PackedTensorAccessor<T, N, Traits, int64_t> Tensor::packed_accessor64() const {
    TORCH_CHECK(dim() == int64_t(N), "TensorAccessor expected ", N, " dims but tensor has ", dim());
    return {data_ptr<T>(), sizes(), strides()};
}
template <class T, size_t N, template <class> class Traits>
PackedTensorAccessor<T, N, Traits, int32_t> Tensor::packed_accessor32() const {
    TORCH_CHECK(dim() == int64_t(N), "TensorAccessor expected ", N, " dims but tensor has ", dim());
    TORCH_CHECK(numel() <= std::numeric_limits<int32_t>::max(), "numel needs to be smaller than int32_t max; otherwise, please use packed_accessor64");
    return {data_ptr<T>(), sizes(), strides()};
}

}  // inline namespace tkjit_stand_in
}  // namespace at
