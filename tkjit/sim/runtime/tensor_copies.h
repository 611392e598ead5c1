// Copies of a tensor map's boxes between global and shared memory.
#pragma once

#include "../check/copies.h"
#include "../check/race.h"
#include "../detail/block.h"
#include "../detail/bulk_copies.h"
#include "../detail/fault.h"
#include "../detail/float16_rounding.h"
#include "../detail/multicast.h"
#include "../detail/site.h"
#include "../detail/tensor_map.h"
#include "../detail/window.h"
#include "fault.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

namespace tkjit::sim {

/// A copy that is under way. The map is copied: a kernel may change its own when it has issued the copy.
struct TensorCopy {
    TensorMap map;
    int first[most_tensor_dims];
    unsigned shared;  // the box's place in the window
    Reduction reduction;
    bool stores;
};

inline unsigned box_extent(const TensorMap& map, unsigned dim) {
    return (map.box[dim] + map.steps[dim] - 1u) / map.steps[dim];
}

inline unsigned box_bytes(const TensorMap& map) {
    unsigned bytes = map.element_bytes;
    for (unsigned dim = 0; dim < map.rank; dim++) bytes *= box_extent(map, dim);
    return bytes;
}

template <class T, class Combine>
inline void combine_atomically(char* global, const char* shared, unsigned bytes, Combine combine) {
    for (unsigned i = 0; i + sizeof(T) <= bytes; i += sizeof(T)) {
        T value, seen, wanted;
        memcpy(&value, shared + i, sizeof(T));
        T* const place = reinterpret_cast<T*>(global + i);
        __atomic_load(place, &seen, __ATOMIC_RELAXED);
        do {
            wanted = combine(seen, value);
        } while (!__atomic_compare_exchange(place, &seen, &wanted, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    }
}

template <class T>
inline void reduce_numbers(Reduction reduction, char* global, const char* shared, unsigned bytes) {
    switch (reduction) {
        case Reduction::add_:
            return combine_atomically<T>(global, shared, bytes, [](T a, T b) { return static_cast<T>(a + b); });
        case Reduction::min_:
            return combine_atomically<T>(global, shared, bytes, [](T a, T b) { return b < a ? b : a; });
        default:
            return combine_atomically<T>(global, shared, bytes, [](T a, T b) { return a < b ? b : a; });
    }
}

/// Two-byte floats, which are added in float and rounded once.
template <class Value, class Bits>
inline void reduce_halves(Reduction reduction, char* global, const char* shared, unsigned bytes, Value value, Bits bits) {
    combine_atomically<unsigned short>(global, shared, bytes, [=](unsigned short a, unsigned short b) {
        const float x = value(a), y = value(b);
        if (reduction == Reduction::add_) return bits(x + y);
        return reduction == Reduction::min_ ? (y < x ? b : a) : (x < y ? b : a);
    });
}

inline void reduce(const TensorMap& map, Reduction reduction, char* global, const char* shared, unsigned bytes) {
    if (reduction == Reduction::and_ || reduction == Reduction::or_ || reduction == Reduction::xor_) {
        return combine_atomically<unsigned char>(global, shared, bytes, [=](unsigned char a, unsigned char b) {
            const int wide = reduction == Reduction::and_ ? a & b : reduction == Reduction::or_ ? a | b : a ^ b;
            return static_cast<unsigned char>(wide);
        });
    }
    switch (map.type) {
        case TensorType::u32:
            return reduce_numbers<uint32_t>(reduction, global, shared, bytes);
        case TensorType::s32:
            return reduce_numbers<int32_t>(reduction, global, shared, bytes);
        case TensorType::u64:
            return reduce_numbers<uint64_t>(reduction, global, shared, bytes);
        case TensorType::s64:
            return reduce_numbers<int64_t>(reduction, global, shared, bytes);
        case TensorType::f32:
        case TensorType::f32_ftz:
            return reduce_numbers<float>(reduction, global, shared, bytes);
        case TensorType::f64:
            return reduce_numbers<double>(reduction, global, shared, bytes);
        case TensorType::f16:
            return reduce_halves(reduction, global, shared, bytes, half_value, half_bits);
        default:
            return reduce_halves(reduction, global, shared, bytes, bfloat16_value, bfloat16_bits);
    }
}

/// What an element outside of the tensor reads as.
inline void fill(const TensorMap& map, char* shared, unsigned bytes) {
    if (!map.fills_with_nan) {
        memset(shared, 0, bytes);
        return;
    }
    const uint64_t nan = map.element_bytes == 8 ? 0x7ff8000000000000ull
                         : map.element_bytes == 4 ? 0x7fffffffull
                                                  : (map.type == TensorType::f16 ? 0x7fffull : 0x7fffull);
    for (unsigned i = 0; i < bytes; i += map.element_bytes) memcpy(shared + i, &nan, map.element_bytes);
}

/// Moves a run of elements that are neighbours in both memories.
inline void move_run(const TensorCopy& copy, char* global, char* shared, unsigned bytes) {
    if (!copy.stores) {
        memcpy(shared, global, bytes);
    } else if (copy.reduction == Reduction::none) {
        memcpy(global, shared, bytes);
    } else {
        reduce(copy.map, copy.reduction, global, shared, bytes);
    }
}

/// One row of the box: in pieces of 16 bytes where it is swizzled, else at once.
inline void move_row(const TensorCopy& copy, char* window, unsigned place, char* global, bool is_outside) {
    const TensorMap& map = copy.map;
    const unsigned count = box_extent(map, 0), step = map.steps[0], size = map.element_bytes;
    const long long first = copy.first[0], end = static_cast<long long>(map.last[0]) + 1;
    const unsigned run = step > 1 ? 1 : map.swizzle_bytes ? 16 / size : count;
    for (unsigned i = 0; i < count; i += run) {
        const unsigned elements = count - i < run ? count - i : run;
        char* const shared = window + swizzled(place + i * size, map.swizzle_bytes);
        const long long index = first + static_cast<long long>(i) * step;
        const long long low = index < 0 ? -index : 0;
        const long long high = end - index < elements ? end - index : elements;
        const unsigned from = low > elements ? elements : static_cast<unsigned>(low);
        const unsigned to = is_outside || high < from ? from : static_cast<unsigned>(high);
        if (!copy.stores) {
            fill(map, shared, from * size);
            fill(map, shared + to * size, (elements - to) * size);
        }
        if (to > from) move_run(copy, global + (index + from) * size, shared + from * size, (to - from) * size);
    }
}

inline void perform_on(const TensorCopy& copy, char* memory) {
    const TensorMap& map = copy.map;
    char* const window = current_thread->block->window;
    const unsigned row_bytes = box_extent(map, 0) * map.element_bytes;
    unsigned index[most_tensor_dims] = {}, place = copy.shared;
    for (;;) {
        char* global = memory;
        bool is_outside = false;
        for (unsigned dim = 1; dim < map.rank; dim++) {
            const long long at = copy.first[dim] + static_cast<long long>(index[dim]) * map.steps[dim];
            is_outside |= at < 0 || at > map.last[dim];
            global += at * static_cast<long long>(map.strides[dim - 1]);
        }
        move_row(copy, window, place, global, is_outside);
        place += row_bytes;
        unsigned dim = 1;
        for (; dim < map.rank && ++index[dim] == box_extent(map, dim); dim++) index[dim] = 0;
        if (dim >= map.rank) return;
    }
}

/// A map of a multicast address writes to all its devices.
inline void perform(const TensorCopy& copy) {
    char* const memory = reinterpret_cast<char*>(copy.map.address);
    const Multicast* const multicast = find_multicast(memory);
    for (unsigned device = 0; multicast && device < multicast->devices; device++) {
        perform_on(copy, multicast->on(device, memory));
    }
    if (multicast == nullptr) perform_on(copy, memory);
}

inline void check_tensor(const TensorMap* map, unsigned rank, const void* shared, const char* what, Site site) {
    if (reinterpret_cast<uintptr_t>(map) % 64 || map->mark != tensor_map_mark) {
        fail(site, "%s: there is no tensor map at %p; cuTensorMapEncodeTiled makes one", what, static_cast<const void*>(map));
    }
    if (map->rank != rank) fail(site, "%s of %u dimensions with a tensor map of %u", what, rank, unsigned(map->rank));
    const unsigned alignment = map->swizzle_bytes ? 128 : 16;
    if (offset_in_window(shared) % alignment) {
        fail(site, "%s: the shared address must be a multiple of %u", what, alignment);
    }
    in_window(offset_in_window(shared), box_bytes(*map), site);
}

inline TensorCopy* new_tensor_copy(const TensorMap& map, const int* coordinates, const void* shared, Site site) {
    TensorCopy* const copy = static_cast<TensorCopy*>(malloc(sizeof(TensorCopy)));
    if (copy == nullptr) fail(site, "out of memory for pending copies");
    copy->map = map;
    memcpy(copy->first, coordinates, map.rank * sizeof(int));
    copy->shared = static_cast<unsigned>(offset_in_window(shared));
    copy->reduction = Reduction::none;
    copy->stores = false;
    return copy;
}

}  // namespace tkjit::sim
