// cub::DeviceAdjacentDifference: differences of neighbouring items.
#pragma once

#include "../detail/device.cuh"

#include <functional>

namespace cub {

/// An item without a neighbour is copied. `in` and `out` may be the same; both operands are then the old values.
struct DeviceAdjacentDifference {
    template <class In, class Out, class NumItems, class DifferenceOp = std::minus<>>
    static cudaError_t SubtractLeftCopy(void* temp, size_t& bytes, In in, Out out, NumItems num_items,
                                        DifferenceOp op = {}, cudaStream_t = nullptr,
                                        detail::Site site = detail::Site::here()) {
        return detail::on_device(temp, bytes, site, [=] {
            auto difference = op;
            for (NumItems i = num_items; i-- > 1;) out[i] = difference(in[i], in[i - 1]);
            if (num_items > 0) out[0] = in[0];
        });
    }
    template <class In, class Out, class NumItems, class DifferenceOp = std::minus<>>
    static cudaError_t SubtractRightCopy(void* temp, size_t& bytes, In in, Out out, NumItems num_items,
                                         DifferenceOp op = {}, cudaStream_t = nullptr,
                                         detail::Site site = detail::Site::here()) {
        return detail::on_device(temp, bytes, site, [=] {
            auto difference = op;
            for (NumItems i = 1; i < num_items; i++) out[i - 1] = difference(in[i - 1], in[i]);
            if (num_items > 0) out[num_items - 1] = in[num_items - 1];
        });
    }
    template <class Data, class NumItems, class DifferenceOp = std::minus<>>
    static cudaError_t SubtractLeft(void* temp, size_t& bytes, Data data, NumItems num_items, DifferenceOp op = {},
                                    cudaStream_t = nullptr, detail::Site site = detail::Site::here()) {
        return SubtractLeftCopy(temp, bytes, data, data, num_items, op, nullptr, site);
    }
    template <class Data, class NumItems, class DifferenceOp = std::minus<>>
    static cudaError_t SubtractRight(void* temp, size_t& bytes, Data data, NumItems num_items, DifferenceOp op = {},
                                     cudaStream_t = nullptr, detail::Site site = detail::Site::here()) {
        return SubtractRightCopy(temp, bytes, data, data, num_items, op, nullptr, site);
    }
};

}  // namespace cub
