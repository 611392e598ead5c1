// cub::DeviceMergeSort: sorts with a comparison function. Here, all of its sorts are stable.
#pragma once

#include "../detail/device_sort.cuh"

namespace cub {

struct DeviceMergeSort {
    template <class KeysIn, class KeysOut, class NumItems, class CompareOp>
    static cudaError_t SortKeysCopy(void* temp, size_t& bytes, KeysIn in, KeysOut out, NumItems num_items,
                                    CompareOp before, cudaStream_t = nullptr,
                                    detail::Site site = detail::Site::here()) {
        return detail::on_device(temp, bytes, site, [=] {
            detail::sort(in, out, detail::no_values, detail::no_values, 0, std::int64_t(num_items), before);
        });
    }
    template <class KeysIn, class ValuesIn, class KeysOut, class ValuesOut, class NumItems, class CompareOp>
    static cudaError_t SortPairsCopy(void* temp, size_t& bytes, KeysIn keys_in, ValuesIn values_in, KeysOut keys_out,
                                     ValuesOut values_out, NumItems num_items, CompareOp before,
                                     cudaStream_t = nullptr, detail::Site site = detail::Site::here()) {
        return detail::on_device(temp, bytes, site, [=] {
            detail::sort(keys_in, keys_out, values_in, values_out, 0, std::int64_t(num_items), before);
        });
    }
    template <class KeysIn, class KeysOut, class NumItems, class CompareOp>
    static cudaError_t StableSortKeysCopy(void* temp, size_t& bytes, KeysIn in, KeysOut out, NumItems num_items,
                                          CompareOp before, cudaStream_t = nullptr,
                                          detail::Site site = detail::Site::here()) {
        return SortKeysCopy(temp, bytes, in, out, num_items, before, nullptr, site);
    }

    // ---- in place
    template <class Keys, class NumItems, class CompareOp>
    static cudaError_t SortKeys(void* temp, size_t& bytes, Keys keys, NumItems num_items, CompareOp before,
                                cudaStream_t = nullptr, detail::Site site = detail::Site::here()) {
        return SortKeysCopy(temp, bytes, keys, keys, num_items, before, nullptr, site);
    }
    template <class Keys, class Values, class NumItems, class CompareOp>
    static cudaError_t SortPairs(void* temp, size_t& bytes, Keys keys, Values values, NumItems num_items,
                                 CompareOp before, cudaStream_t = nullptr, detail::Site site = detail::Site::here()) {
        return SortPairsCopy(temp, bytes, keys, values, keys, values, num_items, before, nullptr, site);
    }
    template <class Keys, class NumItems, class CompareOp>
    static cudaError_t StableSortKeys(void* temp, size_t& bytes, Keys keys, NumItems num_items, CompareOp before,
                                      cudaStream_t = nullptr, detail::Site site = detail::Site::here()) {
        return SortKeys(temp, bytes, keys, num_items, before, nullptr, site);
    }
    template <class Keys, class Values, class NumItems, class CompareOp>
    static cudaError_t StableSortPairs(void* temp, size_t& bytes, Keys keys, Values values, NumItems num_items,
                                       CompareOp before, cudaStream_t = nullptr,
                                       detail::Site site = detail::Site::here()) {
        return SortPairs(temp, bytes, keys, values, num_items, before, nullptr, site);
    }
};

}  // namespace cub
