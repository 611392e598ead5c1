// Binary searches by one thread.
#pragma once

#include "../config.cuh"

namespace cub {

/// The number of items before the first that is not less than `value`.
template <class Iterator, class OffsetT, class T>
OffsetT LowerBound(Iterator input, OffsetT num_items, T value) {
    OffsetT first = 0;
    while (num_items > 0) {
        const OffsetT half = num_items / 2;
        if (input[first + half] < value) {
            first += half + 1;
            num_items -= half + 1;
        } else {
            num_items = half;
        }
    }
    return first;
}

/// The number of items before the first that is greater than `value`.
template <class Iterator, class OffsetT, class T>
OffsetT UpperBound(Iterator input, OffsetT num_items, T value) {
    OffsetT first = 0;
    while (num_items > 0) {
        const OffsetT half = num_items / 2;
        if (value < input[first + half]) {
            num_items = half;
        } else {
            first += half + 1;
            num_items -= half + 1;
        }
    }
    return first;
}

}  // namespace cub
