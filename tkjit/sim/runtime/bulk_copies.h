// A block's bulk copies, and the waits for them at an mbarrier.
#pragma once

#include "../check/copies.h"
#include "../check/race.h"
#include "../detail/atomics.h"
#include "../detail/block.h"
#include "../detail/bulk_copies.h"
#include "../detail/cluster.h"
#include "../detail/fault.h"
#include "../detail/site.h"
#include "../detail/vector_types.h"
#include "copy_queue.h"
#include "fault.h"
#include "launch_state.h"
#include "mbarrier.h"
#include "schedule.h"
#include "scheduler.h"
#include "tensor_boxes.h"
#include "trace.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <span>

namespace tkjit::sim {

struct BulkCopy {
    void* destination;
    const void* source;  // null for a rejected copy, whose bytes count as arrived but are not moved
    unsigned bytes;
    unsigned thread;    // the thread that issued it
    unsigned group;     // the bulk group of a store
    uint64_t* barrier;  // null for a store
    Site site;
    race::Moment issued;
    race::Moment written;  // when it writes its destination: for a load, the same
    TensorCopy* tensor;  // the box of a tensor map that is copied; null for contiguous bytes
    Reduction reduction = Reduction::none;  // of contiguous bytes, whose elements have this type
    TensorType type = TensorType::u8;
    bool is_cp_async = false;  // a thread's copy, which now completes at an mbarrier as well
    unsigned zero_filled = 0;  // the last bytes of such a copy, which have no source
};

/// A block's copies, oldest first.
struct BulkCopies {
    BulkCopy* copies;
    unsigned count, capacity;
    unsigned committed_groups[max_threads_per_block];
};

/// Queues a copy in the block whose mbarrier it completes at, or in the one that stores.
inline void queue_bulk_copy(const BulkCopy& copy) {
    Block& block = copy.barrier ? owner_of(copy.barrier) : *current_thread->block;
    if (block.exited == block.thread_count) {
        fail(copy.site, "a copy to the block of rank %u of the cluster, which has exited or not begun", block.cluster_rank);
    }
    block.progress++;
    if (block.bulk_copies == nullptr) {
        block.bulk_copies = static_cast<BulkCopies*>(calloc(1, sizeof(BulkCopies)));
        if (block.bulk_copies == nullptr) fail(copy.site, "out of memory for pending copies");
    }
    BulkCopies& queue = *block.bulk_copies;
    if (queue.count == queue.capacity) {
        const unsigned capacity = queue.capacity ? 2 * queue.capacity : 64;
        void* grown = realloc(queue.copies, capacity * sizeof(BulkCopy));
        if (grown == nullptr) fail(copy.site, "out of memory for pending copies");
        queue.copies = static_cast<BulkCopy*>(grown);
        queue.capacity = capacity;
    }
    queue.copies[queue.count++] = copy;
}

inline void land(unsigned index) {
    BulkCopies& queue = *current_thread->block->bulk_copies;
    const BulkCopy copy = queue.copies[index];
    queue.count--;
    memmove(queue.copies + index, queue.copies + index + 1, (queue.count - index) * sizeof(BulkCopy));
    if (copy.tensor) {
        land_box(*copy.tensor, copy.written);
        free(copy.tensor);
    } else if (copy.reduction != Reduction::none) {
        reduce(copy.type, copy.reduction, static_cast<char*>(copy.destination), static_cast<const char*>(copy.source), copy.bytes);
    } else {
        const unsigned moved = copy.bytes - copy.zero_filled;
        if (copy.source) race::move(copy.destination, copy.source, moved);
        race::fill(static_cast<char*>(copy.destination) + moved, 0, copy.zero_filled);
        race::landed(copy.destination, copy.bytes, copy.written);
    }
    if (traced()) trace(copy.site, "a bulk copy of %u bytes to %p lands", copy.bytes, copy.destination);
    count_event(*current_thread->block);
    if (copy.barrier == nullptr) {
        race::finish(copy.issued);
        return;
    }
    race::arrive_for(copy.barrier, copy.issued);
    MbarrierBits bits = mbarrier_bits(copy.barrier);
    bits.bytes -= static_cast<int>(copy.bytes);
    end_phase_if_complete(copy.barrier, bits, copy.site);
}

/// Lands one copy that completes on this barrier, or on any barrier if it is null. Returns false if there is no such
/// copy.
inline bool land_one_copy(const uint64_t* barrier) {
    const BulkCopies* queue = current_thread->block->bulk_copies;
    const unsigned count = queue ? queue->count : 0;
    const unsigned first = schedule::any_of(count);
    for (unsigned i = 0; i < count; i++) {
        const unsigned index = (first + i) % count;
        const uint64_t* const own = queue->copies[index].barrier;
        if (own == nullptr || (barrier && own != barrier)) continue;
        land(index);
        return true;
    }
    return false;
}

/// A poll that finds the phase unfinished lets other threads run, but returns false even if they finish it, so that code
/// that ignores the result goes wrong. A copy lands only if nothing else has happened since the thread last polled.
bool mbarrier_test(uint64_t* barrier, unsigned parity, Site site, Ordering ordering) {
    race::note_mbarrier_use(barrier, site);
    Thread& thread = *current_thread;
    if (checked_bits(barrier, "mbarrier wait", site).phase != (parity & 1)) {
        race::leave(barrier, ordering == Ordering::ordered);
        return true;
    }
    if (thread.polled_at != thread.block->progress || !(land_one_copy(barrier) || land_one_copy(nullptr))) {
        MbarrierWait wait{barrier, parity & 1};
        thread.operands = &wait;
        yield_in_poll(Operation::mbarrier, site);
    }
    return false;
}

/// A waiting thread first lets all other threads run. A copy is assumed to take longer than they do, so it lands only
/// when none of them can continue.
__attribute__((noinline)) void mbarrier_wait(uint64_t* barrier, unsigned parity, Site site, Ordering ordering) {
    race::note_mbarrier_use(barrier, site);
    Thread& thread = *current_thread;
    Block& block = *thread.block;
    if (checked_bits(barrier, "mbarrier_wait", site).phase == (parity & 1)) {
        MbarrierWait wait{barrier, parity & 1};
        thread.operands = &wait;
        thread.next = block.mbarrier_waiters;
        block.mbarrier_waiters = &thread;
        wait_in(Operation::mbarrier, site);
    }
    race::leave(barrier, ordering == Ordering::ordered);
}

/// Called when no thread of the block can continue. Lands a copy that a thread waits for, or else any.
bool land_for_waiters(Block& block) {
    if (block.bulk_copies == nullptr) return false;
    for (const Thread* thread = block.mbarrier_waiters; thread; thread = thread->next) {
        if (land_one_copy(static_cast<const MbarrierWait*>(thread->operands)->barrier)) return true;
    }
    return land_one_copy(nullptr);
}

/// A thread's copies, which it may still wait for itself, move to the block's queue, where their bytes arrive at the mbarrier.
/// On a device, one arrival follows the last of them.
void arrive_after_copies(uint64_t* barrier, bool is_counted_already, Site site) {
    checked_bits(barrier, "cp.async.mbarrier.arrive", site);
    CopyQueue& queue = current_thread->copies;
    unsigned bytes = 0;
    for (const PendingCopy& copy : std::span(queue.copies, queue.count)) {
        queue_bulk_copy({copy.destination, copy.source, copy.bytes, current_thread->linear, 0, barrier, copy.site, copy.issued,
                         copy.issued, nullptr, Reduction::none, TensorType::u8, true, copy.bytes - copy.source_bytes});
        bytes += copy.bytes;
    }
    queue.count = 0;
    mbarrier_arrive(barrier, is_counted_already ? 1 : 0, bytes, site);
}

/// Called when the running thread waits for its own copies. Copies that also complete at an mbarrier have no groups here, so
/// all of them land.
void land_moved_copies(const Thread& thread) {
    BulkCopies* queue = thread.block->bulk_copies;
    for (unsigned i = 0; queue && i < queue->count;) {
        const BulkCopy& copy = queue->copies[i];
        if (!copy.is_cp_async || copy.thread != thread.linear) {
            i++;
            continue;
        }
        race::finish(copy.issued);
        land(i);
    }
}

inline void check_bulk(const void* destination, const void* source, unsigned bytes, Site site) {
    const uintptr_t all = reinterpret_cast<uintptr_t>(destination) | reinterpret_cast<uintptr_t>(source) | bytes;
    if (all % 16 == 0) return;
    fail(site, "cp.async.bulk of %u bytes: both addresses and the size must be multiples of 16", bytes);
}

void bulk_copy(void* shared_destination, const void* global_source, unsigned bytes, uint64_t* barrier, Site site) {
    check_bulk(shared_destination, global_source, bytes, site);
    checked_bits(barrier, "cp.async.bulk", site);
    if (bytes == 0) return;
    race::note_completion_at(barrier, site);
    const race::Moment issued = race::pending(race::Copier::loads, shared_destination, bytes, site);
    race::read_meanwhile(global_source, bytes, issued);
    if (!check::may_copy(shared_destination, bytes, global_source, bytes, site)) global_source = nullptr;
    queue_bulk_copy({shared_destination, global_source, bytes, current_thread->linear, 0, barrier, site, issued, issued, nullptr});
}

/// Copies to the same place in several blocks of the cluster, whose mbarriers are in the same place as well.
void bulk_copy_to_blocks(void* shared_destination, const void* global_source, unsigned bytes, uint64_t* barrier,
                         unsigned ranks, Site site) {
    for (unsigned rest = ranks; rest; rest &= rest - 1) {
        const unsigned rank = static_cast<unsigned>(__builtin_ctz(rest));
        auto* const own_barrier = reinterpret_cast<uint64_t*>(in_other_block(barrier, rank, site));
        bulk_copy(in_other_block(shared_destination, rank, site), global_source, bytes, own_barrier, site);
    }
}

/// Writes a few bytes to another block's shared memory, and then counts them at the mbarrier. They arrive at once, but the
/// checker still expects a wait. Source: PTX ISA, "st.async".
void store_async(void* to, const void* value, unsigned bytes, uint64_t* barrier, Site site) {
    checked_bits(barrier, "st.async", site);
    race::note_completion_at(barrier, site);
    if (&owner_of(to) != &owner_of(barrier)) fail(site, "st.async: the memory and the mbarrier are not in the same block");
    const race::Moment issued = race::pending(race::Copier::loads, to, bytes, site);
    if (check::may_use(to, bytes, "write", site)) race::move(to, value, bytes);
    race::landed(to, bytes, issued);
    race::arrive_for(barrier, issued);
    MbarrierBits bits = mbarrier_bits(barrier);
    bits.bytes -= static_cast<int>(bytes);
    end_phase_if_complete(barrier, bits, site);
}

void bulk_reduce(Reduction reduction, TensorType type, void* global_destination, const void* shared_source, unsigned bytes,
                 Site site) {
    check_bulk(global_destination, shared_source, bytes, site);
    if (bytes == 0) return;
    const race::Moment issued = race::begin_copy(race::Copier::stores, site);
    const race::Moment written = race::begin_copy(race::Copier::store_writes, site);
    if (reduction == Reduction::none) race::write_meanwhile(global_destination, bytes, written);
    else race::update_meanwhile(global_destination, bytes, written);
    race::read_meanwhile(shared_source, bytes, issued);
    if (!check::may_copy(global_destination, bytes, shared_source, bytes, site)) return;
    const BulkCopies* queue = current_thread->block->bulk_copies;
    const unsigned group = queue ? queue->committed_groups[current_thread->linear] : 0;
    queue_bulk_copy({global_destination, shared_source, bytes, current_thread->linear, group, nullptr, site, issued, written,
                     nullptr, reduction, type});
}

void bulk_store(void* global_destination, const void* shared_source, unsigned bytes, Site site) {
    bulk_reduce(Reduction::none, TensorType::u8, global_destination, shared_source, bytes, site);
}

void fence_async_proxy(bool shared, bool global) { race::fence_async_proxy(shared, global); }
void release_tensor_maps() { race::release_tensor_maps(); }
void acquire_tensor_maps() { race::acquire_tensor_maps(); }
void fence_mbarrier_init() { race::fence_mbarrier_init(); }

/// Outside of the checker, a group lands when it is committed. Devices are that fast, and some kernels rely on it: they
/// overwrite a tile long after they store it, but before they wait for the store.
void commit_bulk_stores() {
    BulkCopies* const queue = current_thread->block->bulk_copies;
    if (queue == nullptr) return;
    queue->committed_groups[current_thread->linear]++;
    race::commit_stores();
#ifndef TKJIT_SIM_CHECKED
    wait_for_bulk_stores(0);
#endif
}

void wait_for_bulk_stores(unsigned pending_groups, bool only_reads) {
    if (!only_reads) race::finish_store_writes(pending_groups);
    BulkCopies* queue = current_thread->block->bulk_copies;
    if (queue == nullptr) return;
    const unsigned thread = current_thread->linear, committed = queue->committed_groups[thread];
    for (unsigned i = 0; i < queue->count;) {
        const BulkCopy& copy = queue->copies[i];
        const bool is_due = copy.barrier == nullptr && copy.thread == thread && copy.group + pending_groups < committed;
        is_due ? land(i) : void(i++);
    }
}

/// Called when a thread exits: its stores land, as they may on a device.
inline void land_bulk_stores_of(const Thread& thread) {
    BulkCopies* queue = thread.block->bulk_copies;
    if (queue == nullptr || queue->count == 0) return;
    for (unsigned i = 0; i < queue->count; i++) {
        const BulkCopy& copy = queue->copies[i];
        if (copy.barrier == nullptr && copy.thread == thread.linear) race::note_store_at_exit(copy.site);
    }
    queue->committed_groups[thread.linear]++;
    wait_for_bulk_stores(0);
}

/// Called when a block ends. A load that is still pending is a fault, because it would later write to memory that
/// belongs to another block. But a kernel that prefetches a tile and then does not need it is correct, so outside of
/// the checker pending loads of tensor maps' boxes are dropped.
void end_bulk_copies(Block& block) {
    const std::span all(block.bulk_copies->copies, block.bulk_copies->count);
    const auto first = std::ranges::find_if(all, [](const BulkCopy& copy) { return !copy.is_cp_async; });
    const bool is_fault = first != all.end() && (one_at_a_time || first->tensor == nullptr);
    if (is_fault && claim_fault(*block.launch)) {
        const BulkCopy& copy = *first;
        const uint3 thread = block.threads[copy.thread].index;
        ErrorText(block.launch->error_text)
            .append("a bulk copy of %u bytes is under way when its block ends; wait for it, in block (%u, %u, %u), "
                    "thread (%u, %u, %u) (%s:%d)",
                    copy.bytes, blockIdx.x, blockIdx.y, blockIdx.z, thread.x, thread.y, thread.z, copy.site.file,
                    copy.site.line);
    }
    clear_bulk_copies(block);
}

inline void free_bulk_copies(Block& block) {
    if (block.bulk_copies) free(block.bulk_copies->copies);
    free(block.bulk_copies);
}

void clear_bulk_copies(Block& block) {
    if (block.bulk_copies == nullptr) return;
    for (unsigned i = 0; i < block.bulk_copies->count; i++) free(block.bulk_copies->copies[i].tensor);
    block.bulk_copies->count = 0;
    memset(block.bulk_copies->committed_groups, 0, sizeof(block.bulk_copies->committed_groups));
}

}  // namespace tkjit::sim
