// cub::DeviceFor: a call for each item.
#pragma once

#include "../detail/device.cuh"

namespace cub {

/// The functions need no temporary storage, but `Bulk` also accepts it.
struct DeviceFor {
    template <class Size, class Op>
    static cudaError_t Bulk(Size size, Op op, cudaStream_t = nullptr, detail::Site site = detail::Site::here()) {
        size_t bytes = 1;
        return Bulk(&bytes, bytes, size, op, nullptr, site);
    }
    template <class Size, class Op>
    static cudaError_t Bulk(void* temp, size_t& bytes, Size size, Op op, cudaStream_t = nullptr,
                            detail::Site site = detail::Site::here()) {
        return detail::on_device(temp, bytes, site, [=] {
            auto call = op;
            for (Size i = 0; i < size; i++) call(i);
        });
    }
    template <class Iterator, class Size, class Op>
        requires std::integral<Size>
    static cudaError_t ForEachN(Iterator first, Size size, Op op, cudaStream_t = nullptr,
                                detail::Site site = detail::Site::here()) {
        return Bulk(size, [=](Size i) mutable { op(first[i]); }, nullptr, site);
    }
    template <class Iterator, class Op>
    static cudaError_t ForEach(Iterator first, Iterator last, Op op, cudaStream_t = nullptr,
                               detail::Site site = detail::Site::here()) {
        return ForEachN(first, last - first, op, nullptr, site);
    }
};

}  // namespace cub
