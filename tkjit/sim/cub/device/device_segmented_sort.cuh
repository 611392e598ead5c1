// cub::DeviceSegmentedSort: sorts the numbers in each segment. All variants are stable here.
#pragma once

#include "device_segmented_radix_sort.cuh"

namespace cub {

struct DeviceSegmentedSort {
#define TKJIT_SIM_CUB_SORT(prefix, suffix)                                                                             \
    template <class KeyT, class ValueT, class Begins, class Ends>                                                      \
    static cudaError_t prefix##Pairs##suffix(                                                                          \
        void* temp, size_t& bytes, const KeyT* keys_in, KeyT* keys_out, const ValueT* values_in, ValueT* values_out,   \
        std::int64_t num_items, std::int64_t num_segments, Begins begins, Ends ends, cudaStream_t = nullptr,           \
        detail::Site site = detail::Site::here()) {                                                                    \
        return DeviceSegmentedRadixSort::SortPairs##suffix(temp, bytes, keys_in, keys_out, values_in, values_out,      \
                                                           num_items, num_segments, begins, ends, 0,                   \
                                                           sizeof(KeyT) * 8, nullptr, site);                           \
    }                                                                                                                  \
    template <class KeyT, class ValueT, class Begins, class Ends>                                                      \
    static cudaError_t prefix##Pairs##suffix(void* temp, size_t& bytes, DoubleBuffer<KeyT>& keys,                      \
                                             DoubleBuffer<ValueT>& values, std::int64_t num_items,                     \
                                             std::int64_t num_segments, Begins begins, Ends ends,                      \
                                             cudaStream_t = nullptr, detail::Site site = detail::Site::here()) {       \
        return DeviceSegmentedRadixSort::SortPairs##suffix(temp, bytes, keys, values, num_items, num_segments, begins, \
                                                           ends, 0, sizeof(KeyT) * 8, nullptr, site);                  \
    }                                                                                                                  \
    template <class KeyT, class Begins, class Ends>                                                                    \
    static cudaError_t prefix##Keys##suffix(void* temp, size_t& bytes, const KeyT* keys_in, KeyT* keys_out,            \
                                            std::int64_t num_items, std::int64_t num_segments, Begins begins,          \
                                            Ends ends, cudaStream_t = nullptr,                                         \
                                            detail::Site site = detail::Site::here()) {                                \
        return DeviceSegmentedRadixSort::SortKeys##suffix(temp, bytes, keys_in, keys_out, num_items, num_segments,     \
                                                          begins, ends, 0, sizeof(KeyT) * 8, nullptr, site);           \
    }                                                                                                                  \
    template <class KeyT, class Begins, class Ends>                                                                    \
    static cudaError_t prefix##Keys##suffix(void* temp, size_t& bytes, DoubleBuffer<KeyT>& keys,                       \
                                            std::int64_t num_items, std::int64_t num_segments, Begins begins,          \
                                            Ends ends, cudaStream_t = nullptr,                                         \
                                            detail::Site site = detail::Site::here()) {                                \
        return DeviceSegmentedRadixSort::SortKeys##suffix(temp, bytes, keys, num_items, num_segments, begins, ends, 0, \
                                                          sizeof(KeyT) * 8, nullptr, site);                            \
    }

    TKJIT_SIM_CUB_SORT(Sort, )
    TKJIT_SIM_CUB_SORT(Sort, Descending)
    TKJIT_SIM_CUB_SORT(StableSort, )
    TKJIT_SIM_CUB_SORT(StableSort, Descending)
#undef TKJIT_SIM_CUB_SORT
};

}  // namespace cub
