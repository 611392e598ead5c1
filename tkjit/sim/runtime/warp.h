// A warp's collectives: which lanes have arrived, and which continue.
#pragma once

#include "../check/race.h"
#include "../detail/block.h"
#include "../detail/fault.h"
#include "../detail/site.h"
#include "../detail/warp.h"
#include "fault.h"
#include "schedule.h"
#include "scheduler.h"

namespace tkjit::sim {

[[noreturn]] __attribute__((noinline, cold)) void fail_exited_source(Operation operation, unsigned mask, int lane,
                                                                     int source_lane, Site site) {
    fail(site, "%s with mask 0x%08x: lane %d reads lane %d, which has exited, so its value is undefined; let it take "
               "part with a value that changes nothing",
         operation_name(operation), mask, lane, source_lane);
}

#ifdef TKJIT_SIM_CHECKED
void fill_undefined(void* value, size_t bytes) {
    race::fill(value, schedule::order == schedule::Order::forward ? 0xff : 0x5a, bytes);
}
#endif

/// Returns whether an operation is only used by instructions with `.aligned`.
inline bool is_aligned(Operation operation) {
    return operation == Operation::mma || operation == Operation::ldmatrix || operation == Operation::stmatrix ||
           operation == Operation::tensor_memory;
}

inline bool is_same(const Collective& collective, unsigned mask, Operation operation) {
    return collective.arrived && collective.mask == mask && collective.operation == operation;
}

/// Fails if two collectives each need a lane that is waiting in the other one, because then neither can ever complete.
__attribute__((noinline)) inline void check_others(const Warp& warp, unsigned mask, Operation operation, Site site) {
    const Thread& thread = *current_thread;
    for (unsigned rest = warp.in_flight; rest; rest &= rest - 1) {
        const Collective& other = warp.collectives[__builtin_ctz(rest)];
        if (is_same(other, mask, operation) || !(other.mask >> lane_of(thread) & 1) || !(other.arrived & mask)) continue;
        const int other_lane = __builtin_ctz(other.arrived & mask);
        const Site place = (&thread - lane_of(thread))[other_lane].site;
        fail(site, "%s with mask 0x%08x in lane %u, but lane %d waits in %s with mask 0x%08x at %s:%d",
             operation_name(operation), mask, lane_of(thread), other_lane, operation_name(other.operation), other.mask,
             place.file, place.line);
    }
}

/// Returns the collective that lanes with this mask and operation have already reached, or a free one.
inline Collective& find_collective(Warp& warp, unsigned mask, Operation operation, Site site) {
    if (is_same(warp.collectives[warp.latest], mask, operation)) return warp.collectives[warp.latest];
    if (warp.in_flight) check_others(warp, mask, operation, site);
    warp.latest = lane_of(*current_thread);
    for (unsigned rest = warp.in_flight; rest; rest &= rest - 1) {
        const unsigned one = __builtin_ctz(rest);
        if (is_same(warp.collectives[one], mask, operation)) warp.latest = one;
    }
    return warp.collectives[warp.latest];
}

/// Fails if the lanes of an instruction with `.aligned` execute it at different places.
inline void check_lanes_are_together(const Collective& collective, Operation operation, Site site) {
    const Thread& thread = *current_thread;
    const Thread& other = (&thread - lane_of(thread))[__builtin_ctz(collective.arrived)];
    if (is_same_place(other.site, site)) return;
    fail(site, "divergent instruction: lanes of one warp reach %s from here and from %s:%d, but all of them must execute it "
               "together", operation_name(operation), other.site.file, other.site.line);
}

inline void check_mask(unsigned mask, Operation operation, bool needs_all, Site site) {
    const Thread& thread = *current_thread;
    const unsigned alive = warp_of(thread).alive;
    if (!(mask >> lane_of(thread) & 1)) {
        fail(site, "%s with mask 0x%08x omits the calling lane %u", operation_name(operation), mask, lane_of(thread));
    }
    if (needs_all && (mask & ~alive)) {
        fail(site, "%s with mask 0x%08x names lanes that have exited (alive: 0x%08x)", operation_name(operation), mask,
             alive);
    }
}

__attribute__((noinline)) unsigned join_collective(unsigned mask, Operation operation, void* operands, Site site) {
    Thread& thread = *current_thread;
    Warp& warp = warp_of(thread);
    const bool needs_all = thread.needs_whole_group;
    thread.needs_whole_group = false;
    check_mask(mask, operation, needs_all, site);
    Collective& collective = find_collective(warp, mask, operation, site);
    thread.operands = operands;
    if (collective.arrived && is_aligned(operation)) check_lanes_are_together(collective, operation, site);
    if (collective.arrived == 0) {
        collective = {mask, 0, operation, needs_all, 0};
        warp.in_flight |= 1u << warp.latest;
    }
    collective.needs_all |= needs_all;
    collective.arrived |= 1u << lane_of(thread);
    // of the warp's operations, only __syncwarp orders memory
    if (operation == Operation::syncwarp) race::arrive(&collective);
    if (collective.arrived != (mask & warp.alive)) {
        warp.waiting++;
        wait_in(operation, site);
        if (collective.finisher != lane_of(thread) + 1) {
            if (operation == Operation::syncwarp) race::leave(&collective);
            return 0;
        }
        warp.waiting--;
        warp.latest = static_cast<unsigned>(&collective - warp.collectives);
    }
    if (mask & ~warp.alive) race::note_exited_lanes(operation, mask, site);
    if (operation == Operation::syncwarp) race::complete(&collective), race::leave(&collective);
    return collective.arrived;
}

/// Called by the running thread, which was the last to arrive, to let the other lanes continue.
__attribute__((noinline)) void release_collective() {
    Thread& thread = *current_thread;
    Block& block = *thread.block;
    Warp& warp = warp_of(thread);
    Collective& collective = warp.collectives[warp.latest];
    Thread* first = &thread - lane_of(thread);
    const unsigned others = collective.arrived & ~(1u << lane_of(thread));
    collective.arrived = 0;
    collective.finisher = 0;
    warp.in_flight &= ~(1u << warp.latest);
    warp.waiting -= __builtin_popcount(others);
    for (unsigned rest = others; rest; rest &= rest - 1) push_ready(block, first[__builtin_ctz(rest)]);
    count_event(block);
    give_way();
}

/// Called when a lane exits. If a collective was waiting only for this lane, it is now complete, and one of its waiting
/// lanes computes for all.
__attribute__((noinline)) void leave_collectives(Thread& exited) {
    Warp& warp = warp_of(exited);
    for (unsigned rest = warp.in_flight; rest; rest &= rest - 1) {
        Collective& collective = warp.collectives[__builtin_ctz(rest)];
        if (!(collective.mask >> lane_of(exited) & 1)) continue;
        if (collective.needs_all) fail_exited_lane(exited, collective);
        if (collective.arrived != (collective.mask & warp.alive)) continue;
        const unsigned lane = __builtin_ctz(collective.arrived);
        collective.finisher = static_cast<unsigned char>(lane + 1);
        push_ready(*exited.block, (&exited - lane_of(exited))[lane]);
    }
}

/// Lets lanes meet: each waits until the other threads of the block have run for as long as they can without it. The
/// lanes that have reached the same line by then are the converged ones.
__attribute__((noinline)) unsigned active_mask(Site site) {
    Thread& thread = *current_thread;
    Block& block = *thread.block;
    unsigned mask = 0;
    thread.operands = &mask;
    thread.site = site;
    thread.waiting_in = Operation::activemask;
    while (mask == 0 && block.started < block.thread_count) yield();
    // The first round lets ready lanes run; the second, those that they released.
    for (int round = 0; mask == 0 && round < 2; round++) yield();
    if (mask == 0) {
        Thread* first = &thread - lane_of(thread);
        for (unsigned rest = warp_of(thread).alive; rest; rest &= rest - 1) {
            const unsigned lane = __builtin_ctz(rest);
            if (first[lane].waiting_in == Operation::activemask && same_wait(first[lane], thread)) mask |= 1u << lane;
        }
        const unsigned found = mask;  // writing to its own operands changes `mask`
        for (unsigned rest = found; rest; rest &= rest - 1) {
            Thread& member = first[__builtin_ctz(rest)];
            *static_cast<unsigned*>(member.operands) = found;
            member.waiting_in = Operation::none;  // so that a later group does not find it
        }
    }
    thread.waiting_in = Operation::none;
    return mask;
}

}  // namespace tkjit::sim
