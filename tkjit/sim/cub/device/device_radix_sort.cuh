// cub::DeviceRadixSort: stable sorts of numbers.
#pragma once

#include "../detail/device_sort.cuh"

namespace cub {

namespace detail {

template <class Value>
inline constexpr bool is_nothing = std::is_same_v<Value, NullType>;

/// Sorts each of `num_segments` segments, which have the bounds `bounds(i)`.
template <class Key, class Value, class Bounds>
cudaError_t radix_sort(void* temp, size_t& bytes, const Key* keys_in, Key* keys_out, const Value* values_in,
                       Value* values_out, std::int64_t num_segments, Bounds bounds, RadixOrder order, Site site) {
    return on_device(temp, bytes, site, [=] {
        for (std::int64_t i = 0; i < num_segments; i++) {
            const auto [begin, end] = bounds(i);
            sort(keys_in, keys_out, values_in, values_out, begin, end, order);
        }
    });
}

/// Sorts from each double buffer's current buffer into the other one, which then becomes the current one.
template <class Key, class Value, class Bounds>
cudaError_t radix_sort(void* temp, size_t& bytes, DoubleBuffer<Key>& keys, DoubleBuffer<Value>* values,
                       std::int64_t num_segments, Bounds bounds, RadixOrder order, Site site) {
    const cudaError_t error = radix_sort<Key, Value>(
        temp, bytes, keys.Current(), keys.Alternate(), values ? values->Current() : nullptr,
        values ? values->Alternate() : nullptr, num_segments, bounds, order, site);
    if (temp != nullptr && error == cudaSuccess) {
        keys.selector ^= 1;
        if (values) values->selector ^= 1;
    }
    return error;
}

struct Bounds {
    std::int64_t begin, end;
};
struct Whole {
    std::int64_t num_items;
    Bounds operator()(std::int64_t) const { return {0, num_items}; }
};
template <class Begins, class Ends>
struct Segments {
    Begins begins;
    Ends ends;
    Bounds operator()(std::int64_t i) const { return {std::int64_t(begins[i]), std::int64_t(ends[i])}; }
};
template <class Begins, class Ends>
Segments(Begins, Ends) -> Segments<Begins, Ends>;

}  // namespace detail

/// Sorts by the bits from `begin_bit` to before `end_bit` of each key.
struct DeviceRadixSort {
#define TKJIT_SIM_CUB_SORT(suffix, descending)                                                                         \
    template <class KeyT, class ValueT, class NumItems>                                                                \
    static cudaError_t SortPairs##suffix(void* temp, size_t& bytes, const KeyT* keys_in, KeyT* keys_out,               \
                                         const ValueT* values_in, ValueT* values_out, NumItems num_items,              \
                                         int begin_bit = 0, int end_bit = sizeof(KeyT) * 8, cudaStream_t = nullptr,    \
                                         detail::Site site = detail::Site::here()) {                                   \
        return detail::radix_sort(temp, bytes, keys_in, keys_out, values_in, values_out, 1,                            \
                                  detail::Whole{std::int64_t(num_items)}, {begin_bit, end_bit, descending}, site);     \
    }                                                                                                                  \
    template <class KeyT, class ValueT, class NumItems>                                                                \
    static cudaError_t SortPairs##suffix(void* temp, size_t& bytes, DoubleBuffer<KeyT>& keys,                          \
                                         DoubleBuffer<ValueT>& values, NumItems num_items, int begin_bit = 0,          \
                                         int end_bit = sizeof(KeyT) * 8, cudaStream_t = nullptr,                       \
                                         detail::Site site = detail::Site::here()) {                                   \
        return detail::radix_sort(temp, bytes, keys, &values, 1, detail::Whole{std::int64_t(num_items)},               \
                                  {begin_bit, end_bit, descending}, site);                                             \
    }                                                                                                                  \
    template <class KeyT, class NumItems>                                                                              \
    static cudaError_t SortKeys##suffix(void* temp, size_t& bytes, const KeyT* keys_in, KeyT* keys_out,                \
                                        NumItems num_items, int begin_bit = 0, int end_bit = sizeof(KeyT) * 8,         \
                                        cudaStream_t = nullptr, detail::Site site = detail::Site::here()) {            \
        return detail::radix_sort<KeyT, NullType>(temp, bytes, keys_in, keys_out, nullptr, nullptr, 1,                 \
                                                  detail::Whole{std::int64_t(num_items)},                              \
                                                  {begin_bit, end_bit, descending}, site);                             \
    }                                                                                                                  \
    template <class KeyT, class NumItems>                                                                              \
    static cudaError_t SortKeys##suffix(void* temp, size_t& bytes, DoubleBuffer<KeyT>& keys, NumItems num_items,       \
                                        int begin_bit = 0, int end_bit = sizeof(KeyT) * 8, cudaStream_t = nullptr,     \
                                        detail::Site site = detail::Site::here()) {                                    \
        return detail::radix_sort<KeyT, NullType>(temp, bytes, keys, nullptr, 1,                                       \
                                                  detail::Whole{std::int64_t(num_items)},                              \
                                                  {begin_bit, end_bit, descending}, site);                             \
    }

    TKJIT_SIM_CUB_SORT(, false)
    TKJIT_SIM_CUB_SORT(Descending, true)
#undef TKJIT_SIM_CUB_SORT
};

}  // namespace cub
