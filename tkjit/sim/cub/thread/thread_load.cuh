// Loads with a hint for caches, which the simulator does not have.
#pragma once

#include "../util_type.cuh"

namespace cub {

enum CacheLoadModifier { LOAD_DEFAULT, LOAD_CA, LOAD_CG, LOAD_CS, LOAD_CV, LOAD_LDG, LOAD_VOLATILE };

template <CacheLoadModifier Modifier, class Iterator>
value_t<Iterator> ThreadLoad(Iterator iterator) {
    using T = value_t<Iterator>;
    if constexpr ((Modifier == LOAD_CV || Modifier == LOAD_VOLATILE) && std::is_pointer_v<Iterator> &&
                  std::is_scalar_v<T>) {
        return *static_cast<const volatile T*>(iterator);
    } else {
        return *iterator;
    }
}

}  // namespace cub
