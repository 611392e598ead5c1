// Tensors as arrays of arrays: accessor<T, N>() for the host, packed_accessor32<T, N>() as a kernel's argument.
#pragma once

#include "tensor.h"

#include <torch/headeronly/core/TensorAccessor.h>

namespace at {
namespace detail {
inline namespace tkjit_stand_in {
template <size_t N, class Index>
struct IndexBoundsCheck {
    IndexBoundsCheck(Index i) {
        TORCH_CHECK_INDEX(0 <= i && i < Index(N), "Index ", i, " is not within bounds of a tensor of dimension ", N);
    }
};
}  // inline namespace tkjit_stand_in
}  // namespace detail
inline namespace tkjit_stand_in {

using torch::headeronly::DefaultPtrTraits;
#ifdef __CUDACC__
using torch::headeronly::RestrictPtrTraits;
#else
template <class T>
struct RestrictPtrTraits {
    typedef T* __restrict__ PtrType;
};
#endif


template <class T, size_t N, template <class> class Traits = DefaultPtrTraits, class Index = int64_t>
using TensorAccessorBase = torch::headeronly::detail::TensorAccessorBase<IntArrayRef, T, N, Traits, Index>;
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits, class Index = int64_t>
using TensorAccessor = torch::headeronly::detail::TensorAccessor<IntArrayRef, T, N, Traits, Index>;
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits, class Index = int64_t>
using GenericPackedTensorAccessor =
    torch::headeronly::detail::GenericPackedTensorAccessor<TensorAccessor<T, N - 1, Traits, Index>, detail::IndexBoundsCheck<N, Index>, T, N, Traits, Index>;
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits, class Index = int64_t>
using PackedTensorAccessor = GenericPackedTensorAccessor<T, N, Traits, Index>;
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits>
using PackedTensorAccessor32 = GenericPackedTensorAccessor<T, N, Traits, int32_t>;
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits>
using PackedTensorAccessor64 = GenericPackedTensorAccessor<T, N, Traits, int64_t>;

template <class T, size_t N>
auto TensorBase::accessor() const {
    TORCH_CHECK(dim() == int64_t(N), "TensorAccessor expected ", N, " dims but tensor has ", dim());
    return TensorAccessor<T, N>(data_ptr<T>(), sizes().data(), strides().data());
}
template <class T, size_t N, template <class> class Traits, class Index>
auto TensorBase::generic_packed_accessor() const {
    TORCH_CHECK(dim() == int64_t(N), "TensorAccessor expected ", N, " dims but tensor has ", dim());
    return GenericPackedTensorAccessor<T, N, Traits, Index>(static_cast<typename Traits<T>::PtrType>(data_ptr<T>()), sizes().data(), strides().data());
}

}  // inline namespace tkjit_stand_in
}  // namespace at
