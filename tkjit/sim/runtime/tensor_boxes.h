// A tensor map's boxes: where their elements are in global and shared memory, and how they are moved.
#pragma once

#include "../check/race.h"
#include "../detail/block.h"
#include "../detail/bulk_copies.h"
#include "../detail/cluster.h"
#include "../detail/fault.h"
#include "../detail/multicast.h"
#include "../detail/site.h"
#include "../detail/tensor_map.h"
#include "../detail/tf32_rounding.h"
#include "../detail/window.h"
#include "fault.h"
#include "tensor_reductions.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

namespace tkjit::sim {

/// A copy that has been issued. It has its own copy of the map, because the kernel may change the original afterwards.
struct TensorCopy {
    TensorMap map;
    int first[most_tensor_dims];
    char* window;     // of the block whose shared memory it uses
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

/// Fills elements that are outside of the tensor.
inline void fill(const TensorMap& map, char* shared, unsigned bytes) {
    if (!map.fills_with_nan) {
        race::fill(shared, 0, bytes);
        return;
    }
    const uint64_t nan = map.element_bytes == 8 ? 0x7ff8000000000000ull : map.element_bytes == 4 ? 0x7fffffffull : 0x7fffull;
    for (unsigned i = 0; i < bytes; i += map.element_bytes) race::move(shared + i, &nan, map.element_bytes);
}

/// Visits one row of the box: in pieces of 16 bytes if it is swizzled, else in one piece.
template <class Each>
inline void for_each_run_of_row(const TensorCopy& copy, char* window, unsigned place, char* global, bool is_outside,
                                const Each& each) {
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
        if (from) each(nullptr, shared, from * size);
        if (to > from) each(global + (index + from) * size, shared + from * size, (to - from) * size);
        if (elements > to) each(nullptr, shared + to * size, (elements - to) * size);
    }
}

/// Calls `each(global, shared, bytes)` for each run of elements that is contiguous in both memories. `global` is null
/// for elements outside of the tensor.
template <class Each>
inline void for_each_run(const TensorCopy& copy, char* memory, const Each& each) {
    const TensorMap& map = copy.map;
    char* const window = copy.window;
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
        for_each_run_of_row(copy, window, place, global, is_outside, each);
        place += row_bytes;
        unsigned dim = 1;
        for (; dim < map.rank && ++index[dim] == box_extent(map, dim); dim++) index[dim] = 0;
        if (dim >= map.rank) return;
    }
}

/// Rounds floats in shared memory to tf32. How TMA rounds ties is not documented.
inline void round_to_tf32(char* shared, unsigned bytes) {
    for (unsigned i = 0; i < bytes; i += 4) {
        uint32_t value;
        memcpy(&value, shared + i, 4);
        value = rounded_to_tf32(value);
        memcpy(shared + i, &value, 4);
    }
}

inline char* memory_of(const TensorMap& map) { return reinterpret_cast<char*>(map.address); }

inline void perform_on(const TensorCopy& copy, char* memory) {
    for_each_run(copy, memory, [&](char* global, char* shared, unsigned bytes) {
        if (!copy.stores) {
            global ? race::move(shared, global, bytes) : fill(copy.map, shared, bytes);
            if (copy.map.type == TensorType::tf32) round_to_tf32(shared, bytes);
        } else if (global && copy.reduction == Reduction::none) {
            race::move(global, shared, bytes);
        } else if (global) {
            reduce(copy.map.type, copy.reduction, global, shared, bytes);
        }
    });
}

/// A copy through a map of a multicast address affects all its devices.
inline void perform(const TensorCopy& copy) {
    char* const memory = memory_of(copy.map);
    const Multicast* const multicast = find_multicast(memory);
    for (unsigned device = 0; multicast && device < multicast->devices; device++) {
        perform_on(copy, multicast->on(device, memory));
    }
    if (multicast == nullptr) perform_on(copy, memory);
}

inline void land_box(const TensorCopy& copy, [[maybe_unused]] const race::Moment& issued) {
    perform(copy);
#ifdef TKJIT_SIM_CHECKED
    if (!copy.stores) race::landed(copy.window + copy.shared, box_bytes(copy.map), issued);
    else if (find_multicast(memory_of(copy.map)) == nullptr) {
        for_each_run(copy, memory_of(copy.map), [&](char* global, char*, unsigned bytes) {
            if (global) race::landed(global, bytes, issued);
        });
    }
#endif
}

inline void check_tensor(const TensorMap* map, const int* coordinates, unsigned rank, const void* shared, const char* what,
                         Site site) {
    if (reinterpret_cast<uintptr_t>(map) % 64 || map->mark != tensor_map_mark) {
        fail(site, "%s: there is no tensor map at %p. Was cuTensorMapEncodeTiled called, and did it succeed? It needs a tensor with "
             "elements, whose address and row stride are multiples of 16 bytes; tkjit::tiled::is_mapped tells whether it has one",
             what, static_cast<const void*>(map));
    }
    if (map->rank != rank) fail(site, "%s: %u coordinates for a tensor map of %u dimensions", what, rank,
                                unsigned(map->rank));
    const unsigned alignment = map->swizzle_bytes ? 128 : 16;
    if (offset_in_window(shared) % alignment) {
        fail(site, "%s: the shared address must be a multiple of %u", what, alignment);
    }
    // an H100 ends the kernel with "an illegal instruction was encountered", though the PTX ISA has no such rule
    const long long begins = static_cast<long long>(coordinates[0]) * map->element_bytes;
    if (begins % 16) {
        fail(site, "%s: coordinate %d of the innermost dimension is %lld bytes; it must be a multiple of 16 bytes", what,
             coordinates[0], begins);
    }
    const Block& owner = owner_of(shared);
    const auto offset = static_cast<size_t>(static_cast<const char*>(shared) - owner.window);
    in_window(first_shared_address(owner) + offset, box_bytes(*map), site);
}

inline TensorCopy* new_tensor_copy(const TensorMap& map, const int* coordinates, const void* shared, Site site) {
    TensorCopy* const copy = static_cast<TensorCopy*>(malloc(sizeof(TensorCopy)));
    if (copy == nullptr) fail(site, "out of memory for pending copies");
    copy->map = map;
    memcpy(copy->first, coordinates, map.rank * sizeof(int));
    copy->window = owner_of(shared).window;
    copy->shared = static_cast<unsigned>(static_cast<const char*>(shared) - copy->window);
    copy->reduction = Reduction::none;
    copy->stores = false;
    return copy;
}

}  // namespace tkjit::sim
