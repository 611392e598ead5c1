// cub::DeviceSegmentedRadixSort: stable sorts of numbers, each segment separately.
#pragma once

#include "device_radix_sort.cuh"

namespace cub {

/// Output items outside of all segments stay as they are.
struct DeviceSegmentedRadixSort {
#define TKJIT_SIM_CUB_SORT(suffix, descending)                                                                         \
    template <class KeyT, class ValueT, class Begins, class Ends>                                                      \
    static cudaError_t SortPairs##suffix(                                                                              \
        void* temp, size_t& bytes, const KeyT* keys_in, KeyT* keys_out, const ValueT* values_in, ValueT* values_out,   \
        std::int64_t, std::int64_t num_segments, Begins begins, Ends ends, int begin_bit = 0,                          \
        int end_bit = sizeof(KeyT) * 8, cudaStream_t = nullptr, detail::Site site = detail::Site::here()) {            \
        return detail::radix_sort(temp, bytes, keys_in, keys_out, values_in, values_out, num_segments,                 \
                                  detail::Segments{begins, ends}, {begin_bit, end_bit, descending}, site);             \
    }                                                                                                                  \
    template <class KeyT, class ValueT, class Begins, class Ends>                                                      \
    static cudaError_t SortPairs##suffix(                                                                              \
        void* temp, size_t& bytes, DoubleBuffer<KeyT>& keys, DoubleBuffer<ValueT>& values, std::int64_t,               \
        std::int64_t num_segments, Begins begins, Ends ends, int begin_bit = 0, int end_bit = sizeof(KeyT) * 8,        \
        cudaStream_t = nullptr, detail::Site site = detail::Site::here()) {                                            \
        return detail::radix_sort(temp, bytes, keys, &values, num_segments, detail::Segments{begins, ends},            \
                                  {begin_bit, end_bit, descending}, site);                                             \
    }                                                                                                                  \
    template <class KeyT, class Begins, class Ends>                                                                    \
    static cudaError_t SortKeys##suffix(void* temp, size_t& bytes, const KeyT* keys_in, KeyT* keys_out, std::int64_t,  \
                                        std::int64_t num_segments, Begins begins, Ends ends, int begin_bit = 0,        \
                                        int end_bit = sizeof(KeyT) * 8, cudaStream_t = nullptr,                        \
                                        detail::Site site = detail::Site::here()) {                                    \
        return detail::radix_sort<KeyT, NullType>(temp, bytes, keys_in, keys_out, nullptr, nullptr, num_segments,      \
                                                  detail::Segments{begins, ends},                                      \
                                                  {begin_bit, end_bit, descending}, site);                             \
    }                                                                                                                  \
    template <class KeyT, class Begins, class Ends>                                                                    \
    static cudaError_t SortKeys##suffix(void* temp, size_t& bytes, DoubleBuffer<KeyT>& keys, std::int64_t,             \
                                        std::int64_t num_segments, Begins begins, Ends ends, int begin_bit = 0,        \
                                        int end_bit = sizeof(KeyT) * 8, cudaStream_t = nullptr,                        \
                                        detail::Site site = detail::Site::here()) {                                    \
        return detail::radix_sort<KeyT, NullType>(temp, bytes, keys, nullptr, num_segments,                            \
                                                  detail::Segments{begins, ends},                                      \
                                                  {begin_bit, end_bit, descending}, site);                             \
    }

    TKJIT_SIM_CUB_SORT(, false)
    TKJIT_SIM_CUB_SORT(Descending, true)
#undef TKJIT_SIM_CUB_SORT
};

}  // namespace cub
