// Stores with a hint for caches, which the simulator does not have.
#pragma once

#include "../util_type.cuh"

namespace cub {

enum CacheStoreModifier { STORE_DEFAULT, STORE_WB, STORE_CG, STORE_CS, STORE_WT, STORE_VOLATILE };

template <CacheStoreModifier Modifier, class Iterator, class T>
void ThreadStore(Iterator iterator, T value) {
    if constexpr (Modifier == STORE_VOLATILE && std::is_pointer_v<Iterator> && std::is_scalar_v<T>) {
        *static_cast<volatile std::remove_pointer_t<Iterator>*>(iterator) = value;
    } else {
        *iterator = value;
    }
}

}  // namespace cub
