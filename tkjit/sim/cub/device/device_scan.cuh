// cub::DeviceScan.
#pragma once

#include "../detail/device.cuh"

namespace cub {

namespace detail {

template <class T>
struct initial_value {
    using type = T;
};
template <class T, class Iterator>
struct initial_value<FutureValue<T, Iterator>> {
    using type = T;
};

/// `in` and `out` may be the same.
template <class In, class Out, class Op, class T, class Size>
void scan_exclusively(In in, Out out, Op op, T init, Size begin, Size end) {
    accumulator_t<Op, T, value_t<In>> total = init;
    for (Size i = begin; i < end; i++) {
        const accumulator_t<Op, T, value_t<In>> next = op(total, in[i]);
        out[i] = total;
        total = next;
    }
}
template <class In, class Out, class Op, class Size>
void scan_inclusively(In in, Out out, Op op, Size begin, Size end) {
    if (begin >= end) return;
    accumulator_t<Op, value_t<In>, value_t<In>> total = in[begin];
    out[begin] = total;
    for (Size i = begin + 1; i < end; i++) out[i] = total = op(total, in[i]);
}

/// Calls `scan` with the bounds of each run of equal keys.
template <class Keys, class Size, class Equal, class Scan>
void for_each_run(Keys keys, Size num_items, Equal equal, Scan scan) {
    for (Size begin = 0, end; begin < num_items; begin = end) {
        for (end = begin + 1; end < num_items && equal(keys[end - 1], keys[end]);) end++;
        scan(begin, end);
    }
}

}  // namespace detail

struct DeviceScan {
    template <class In, class Out, class ScanOp, class T, class NumItems>
        requires std::integral<NumItems>
    static cudaError_t ExclusiveScan(void* temp, size_t& bytes, In in, Out out, ScanOp op, T init, NumItems num_items,
                                     cudaStream_t = nullptr, detail::Site site = detail::Site::here()) {
        return detail::on_device(temp, bytes, site, [=] {
            const typename detail::initial_value<T>::type first = init;
            detail::scan_exclusively(in, out, op, first, NumItems(0), num_items);
        });
    }
    template <class In, class Out, class NumItems>
        requires std::integral<NumItems>
    static cudaError_t ExclusiveSum(void* temp, size_t& bytes, In in, Out out, NumItems num_items,
                                    cudaStream_t = nullptr, detail::Site site = detail::Site::here()) {
        return ExclusiveScan(temp, bytes, in, out, cub::Sum(), value_t<In>{}, num_items, nullptr, site);
    }
    template <class In, class Out, class ScanOp, class NumItems>
        requires std::integral<NumItems>
    static cudaError_t InclusiveScan(void* temp, size_t& bytes, In in, Out out, ScanOp op, NumItems num_items,
                                     cudaStream_t = nullptr, detail::Site site = detail::Site::here()) {
        return detail::on_device(temp, bytes, site,
                                 [=] { detail::scan_inclusively(in, out, op, NumItems(0), num_items); });
    }
    template <class In, class Out, class NumItems>
        requires std::integral<NumItems>
    static cudaError_t InclusiveSum(void* temp, size_t& bytes, In in, Out out, NumItems num_items,
                                    cudaStream_t = nullptr, detail::Site site = detail::Site::here()) {
        return InclusiveScan(temp, bytes, in, out, cub::Sum(), num_items, nullptr, site);
    }
    template <class In, class Out, class ScanOp, class T, class NumItems>
        requires std::integral<NumItems>
    static cudaError_t InclusiveScanInit(void* temp, size_t& bytes, In in, Out out, ScanOp op, T init,
                                         NumItems num_items, cudaStream_t = nullptr,
                                         detail::Site site = detail::Site::here()) {
        return detail::on_device(temp, bytes, site, [=] {
            auto scan = op;
            detail::accumulator_t<ScanOp, T, value_t<In>> total = init;
            for (NumItems i = 0; i < num_items; i++) out[i] = total = scan(total, in[i]);
        });
    }

    // ---- in place
    template <class Data, class ScanOp, class T, class NumItems>
        requires std::integral<NumItems>
    static cudaError_t ExclusiveScan(void* temp, size_t& bytes, Data data, ScanOp op, T init, NumItems num_items,
                                     cudaStream_t = nullptr, detail::Site site = detail::Site::here()) {
        return ExclusiveScan(temp, bytes, data, data, op, init, num_items, nullptr, site);
    }
    template <class Data, class NumItems>
        requires std::integral<NumItems>
    static cudaError_t ExclusiveSum(void* temp, size_t& bytes, Data data, NumItems num_items, cudaStream_t = nullptr,
                                    detail::Site site = detail::Site::here()) {
        return ExclusiveSum(temp, bytes, data, data, num_items, nullptr, site);
    }
    template <class Data, class ScanOp, class NumItems>
        requires std::integral<NumItems>
    static cudaError_t InclusiveScan(void* temp, size_t& bytes, Data data, ScanOp op, NumItems num_items,
                                     cudaStream_t = nullptr, detail::Site site = detail::Site::here()) {
        return InclusiveScan(temp, bytes, data, data, op, num_items, nullptr, site);
    }
    template <class Data, class NumItems>
        requires std::integral<NumItems>
    static cudaError_t InclusiveSum(void* temp, size_t& bytes, Data data, NumItems num_items, cudaStream_t = nullptr,
                                    detail::Site site = detail::Site::here()) {
        return InclusiveSum(temp, bytes, data, data, num_items, nullptr, site);
    }

    // ---- scans of each run of equal keys
    template <class Keys, class In, class Out, class ScanOp, class T, class NumItems, class Equal = Equality>
    static cudaError_t ExclusiveScanByKey(void* temp, size_t& bytes, Keys keys, In in, Out out, ScanOp op, T init,
                                          NumItems num_items, Equal equal = Equal(), cudaStream_t = nullptr,
                                          detail::Site site = detail::Site::here()) {
        return detail::on_device(temp, bytes, site, [=] {
            detail::for_each_run(keys, num_items, equal, [&](NumItems begin, NumItems end) {
                detail::scan_exclusively(in, out, op, init, begin, end);
            });
        });
    }
    template <class Keys, class In, class Out, class NumItems, class Equal = Equality>
    static cudaError_t ExclusiveSumByKey(void* temp, size_t& bytes, Keys keys, In in, Out out, NumItems num_items,
                                         Equal equal = Equal(), cudaStream_t = nullptr,
                                         detail::Site site = detail::Site::here()) {
        return ExclusiveScanByKey(temp, bytes, keys, in, out, cub::Sum(), value_t<In>{}, num_items, equal, nullptr, site);
    }
    template <class Keys, class In, class Out, class ScanOp, class NumItems, class Equal = Equality>
    static cudaError_t InclusiveScanByKey(void* temp, size_t& bytes, Keys keys, In in, Out out, ScanOp op,
                                          NumItems num_items, Equal equal = Equal(), cudaStream_t = nullptr,
                                          detail::Site site = detail::Site::here()) {
        return detail::on_device(temp, bytes, site, [=] {
            detail::for_each_run(keys, num_items, equal, [&](NumItems begin, NumItems end) {
                detail::scan_inclusively(in, out, op, begin, end);
            });
        });
    }
    template <class Keys, class In, class Out, class NumItems, class Equal = Equality>
    static cudaError_t InclusiveSumByKey(void* temp, size_t& bytes, Keys keys, In in, Out out, NumItems num_items,
                                         Equal equal = Equal(), cudaStream_t = nullptr,
                                         detail::Site site = detail::Site::here()) {
        return InclusiveScanByKey(temp, bytes, keys, in, out, cub::Sum(), num_items, equal, nullptr, site);
    }
};

}  // namespace cub
