// Copies tensor maps' boxes between global and shared memory.
#pragma once

#include "../check/copies.h"
#include "../check/race.h"
#include "../detail/block.h"
#include "../detail/bulk_copies.h"
#include "../detail/multicast.h"
#include "../detail/site.h"
#include "../detail/tensor_map.h"
#include "bulk_copies.h"
#include "tensor_boxes.h"

#include <stdlib.h>

namespace tkjit::sim {

#ifdef TKJIT_SIM_CHECKED
/// Reports a copy's memory to the checker. Returns false if the copy must not use it. A multicast address, whose memory
/// is on several devices, is not checked.
inline bool note_runs(const TensorCopy& copy, const race::Moment& issued, Site site) {
    bool may = check::may_use(copy.window + copy.shared, box_bytes(copy.map), copy.stores ? "read" : "write", site);
    if (find_multicast(memory_of(copy.map))) return may;
    for_each_run(copy, memory_of(copy.map), [&](char* global, char*, unsigned bytes) {
        if (global == nullptr) return;
        may &= check::may_use(global, bytes, copy.stores ? "write" : "read", site);
        if (!copy.stores) race::read_meanwhile(global, bytes, issued);
        else if (copy.reduction == Reduction::none) race::write_meanwhile(global, bytes, issued);
        else race::update_meanwhile(global, bytes, issued);
    });
    return may;
}
#else
inline bool note_runs(const TensorCopy&, const race::Moment&, Site) { return true; }
#endif

/// Handles a rejected copy: its bytes arrive, but are not moved.
inline TensorCopy* give_up(TensorCopy* copy) {
    free(copy);
    return nullptr;
}

void tensor_load(void* shared_destination, const TensorMap* map, const int* coordinates, unsigned rank,
                 uint64_t* barrier, Site site) {
    check_tensor(map, coordinates, rank, shared_destination, "cp.async.bulk.tensor", site);
    checked_bits(barrier, "cp.async.bulk.tensor", site);
    race::read_tensor_map(map, sizeof(*map), site);
    race::note_completion_at(barrier, site);
    const unsigned bytes = box_bytes(*map);
    const race::Moment issued = race::pending(race::Copier::loads, shared_destination, bytes, site);
    TensorCopy* copy = new_tensor_copy(*map, coordinates, shared_destination, site);
    if (!note_runs(*copy, issued, site)) copy = give_up(copy);
    queue_bulk_copy({shared_destination, nullptr, bytes, current_thread->linear, 0, barrier, site, issued, issued, copy});
}

void tensor_load_to_blocks(void* shared_destination, const TensorMap* map, const int* coordinates, unsigned rank,
                           uint64_t* barrier, unsigned ranks, bool of_pair, Site site) {
    const unsigned parity = rank_of(barrier) % 2;
    for (unsigned rest = ranks; rest; rest &= rest - 1) {
        const unsigned block = static_cast<unsigned>(__builtin_ctz(rest));
        const unsigned signalled = of_pair ? (block & ~1u) | parity : block;
        auto* const own_barrier = reinterpret_cast<uint64_t*>(in_other_block(barrier, signalled, site));
        tensor_load(in_other_block(shared_destination, block, site), map, coordinates, rank, own_barrier, site);
    }
}

/// Returns a number that is the same for stores of one box. Each thread may have its own copy of the map.
inline uintptr_t number_of_store(const void* shared_source, const TensorMap* map, const int* coordinates, unsigned rank) {
    uintptr_t number = map->address;
    for (unsigned dim = 0; dim < rank; dim++) number = number * 1000003 + static_cast<unsigned>(coordinates[dim]);
    return number * 1000003 + reinterpret_cast<uintptr_t>(shared_source);
}

void tensor_store(const TensorMap* map, const int* coordinates, unsigned rank, const void* shared_source,
                  Reduction reduction, Site site) {
    check_tensor(map, coordinates, rank, shared_source, "cp.async.bulk.tensor", site);
    for (unsigned dim = 0; dim < rank; dim++) {
        if (coordinates[dim] >= 0) continue;  // an H100 ends the kernel if a coordinate is negative
        fail(site, "cp.async.bulk.tensor to global memory: coordinate %d of dimension %u is below zero", coordinates[dim], dim);
    }
    race::read_tensor_map(map, sizeof(*map), site);
    const bool is_plain = reduction == Reduction::none;
    if (is_plain && is_done_by_other_lane(number_of_store(shared_source, map, coordinates, rank), site)) return;
    const unsigned bytes = box_bytes(*map);
    const race::Moment issued = race::begin_copy(race::Copier::stores, site);
    const race::Moment written = race::begin_copy(race::Copier::store_writes, site);
    race::read_meanwhile(shared_source, bytes, issued);
    TensorCopy* copy = new_tensor_copy(*map, coordinates, shared_source, site);
    copy->stores = true;
    copy->reduction = reduction;
    if (!note_runs(*copy, written, site)) copy = give_up(copy);
    const BulkCopies* queue = current_thread->block->bulk_copies;
    const unsigned group = queue ? queue->committed_groups[current_thread->linear] : 0;
    queue_bulk_copy({memory_of(*map), nullptr, bytes, current_thread->linear, group, nullptr, site, issued, written,
                     copy});
}

}  // namespace tkjit::sim
