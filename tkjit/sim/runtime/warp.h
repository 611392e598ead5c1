// Collectives of a warp: who has arrived, and who goes on.
#pragma once

namespace tkjit::sim {

/// Checks a collective's mask, and that the lanes which are there already mean the same operation.
inline void check_collective(const Collective& collective, unsigned mask, Operation operation, Site site) {
    const Thread& thread = *current_thread;
    const unsigned alive = warp_of(thread).alive;
    if (!(mask >> lane_of(thread) & 1)) {
        fail(site, "%s with mask 0x%08x omits the calling lane %u", operation_name(operation), mask, lane_of(thread));
    }
    if (mask & ~alive) {
        fail(site, "%s with mask 0x%08x names lanes that have exited (alive: 0x%08x)", operation_name(operation), mask,
             alive);
    }
    if (collective.arrived == 0 || (collective.mask == mask && collective.operation == operation)) return;
    const int other_lane = __builtin_ctz(collective.arrived);
    const Thread& other = (&thread - lane_of(thread))[other_lane];
    fail(site, "%s with mask 0x%08x in lane %u, but lane %d waits in %s with mask 0x%08x at %s:%d",
         operation_name(operation), mask, lane_of(thread), other_lane, operation_name(collective.operation),
         collective.mask, other.site.file, other.site.line);
}

__attribute__((noinline)) bool join_collective(unsigned mask, Operation operation, void* operands, Site site) {
    Thread& thread = *current_thread;
    Warp& warp = warp_of(thread);
    // The lowest lane of an empty mask is taken to be the caller's, for check_collective to refuse.
    Collective& collective = warp.collectives[mask ? __builtin_ctz(mask) : lane_of(thread)];
    check_collective(collective, mask, operation, site);
    thread.operands = operands;
    collective.mask = mask;
    collective.operation = operation;
    collective.arrived |= 1u << lane_of(thread);
    // of the warp's operations __syncwarp alone orders memory
    if (operation == Operation::syncwarp) race::arrive(&collective);
    if (collective.arrived == mask) {
        if (operation == Operation::syncwarp) race::complete(&collective), race::leave(&collective);
        return true;
    }
    warp.waiting++;
    wait_in(operation, site);
    if (operation == Operation::syncwarp) race::leave(&collective);
    return false;
}

__attribute__((noinline)) void release_collective(unsigned mask) {
    Thread& thread = *current_thread;
    Block& block = *thread.block;
    Warp& warp = warp_of(thread);
    warp.collectives[__builtin_ctz(mask)].arrived = 0;
    Thread* first = &thread - lane_of(thread);
    const unsigned others = mask & ~(1u << lane_of(thread));
    warp.waiting -= __builtin_popcount(others);
    for (unsigned rest = others; rest; rest &= rest - 1) push_ready(block, first[__builtin_ctz(rest)]);
    count_event(block);
    give_way();
}

/// They meet: each waits until the other threads of the block have
/// run as far as they can without it, and those that have come to the same line by then are the converged ones.
__attribute__((noinline)) unsigned active_mask(Site site) {
    Thread& thread = *current_thread;
    Block& block = *thread.block;
    unsigned mask = 0;
    thread.operands = &mask;
    thread.site = site;
    thread.waiting_in = Operation::activemask;
    while (mask == 0 && block.started < block.thread_count) yield();
    // The first round lets ready lanes run; the second, those which they released.
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
            member.waiting_in = Operation::none;  // no longer to be found by a later group
        }
    }
    thread.waiting_in = Operation::none;
    return mask;
}

}  // namespace tkjit::sim
