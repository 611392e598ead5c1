// Stable sorts of arrays, for algorithms of a device.
#pragma once

#include "device.cuh"
#include "sort.cuh"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

namespace cub::detail {

/// Returns the indices from `begin` to before `end`, in the order of their keys.
template <class Keys, class Before>
std::vector<std::int64_t> sorted_indices(Keys keys, std::int64_t begin, std::int64_t end, Before before) {
    std::vector<std::int64_t> order(static_cast<size_t>(end > begin ? end - begin : 0));
    std::iota(order.begin(), order.end(), begin);
    std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
        const value_t<Keys>&key_a = keys[a], &key_b = keys[b];
        return before(key_a, key_b);
    });
    return order;
}

/// Writes the items of `in`, in the given order, to `out`, which may be the same array.
template <class In, class Out>
void gather(In in, Out out, std::int64_t begin, const std::vector<std::int64_t>& order) {
    std::vector<std::decay_t<value_t<In>>> sorted;
    sorted.reserve(order.size());
    for (const std::int64_t i : order) sorted.push_back(in[i]);
    for (size_t i = 0; i < sorted.size(); i++) out[begin + static_cast<std::int64_t>(i)] = sorted[i];
}

/// The values of a sort that has only keys.
inline constexpr const NullType* no_values = nullptr;

template <class KeysIn, class KeysOut, class ValuesIn, class ValuesOut, class Before>
void sort(KeysIn keys_in, KeysOut keys_out, ValuesIn values_in, ValuesOut values_out, std::int64_t begin,
          std::int64_t end, Before before) {
    const std::vector<std::int64_t> order = sorted_indices(keys_in, begin, end, before);
    gather(keys_in, keys_out, begin, order);
    if constexpr (!std::is_same_v<value_t<ValuesIn>, NullType>) gather(values_in, values_out, begin, order);
}

}  // namespace cub::detail
