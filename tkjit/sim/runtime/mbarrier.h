// mbarriers: their bits, their phases, and the threads that wait for one.
#pragma once

#include "../check/race.h"
#include "../detail/block.h"
#include "../detail/bulk_copies.h"
#include "../detail/cluster.h"
#include "../detail/fault.h"
#include "../detail/site.h"
#include "fault.h"
#include "launch_state.h"
#include "scheduler.h"
#include "trace.h"

#include <stdint.h>

namespace tkjit::sim {

/// The bits of an mbarrier. The tag distinguishes an initialised mbarrier from other memory.
struct MbarrierBits {
    uint64_t phase : 1;
    uint64_t count : 20;    // arrivals that a phase needs
    uint64_t pending : 20;  // arrivals that are still missing
    int64_t bytes : 21;     // expected bytes that have not arrived; negative if bytes have arrived too early
    uint64_t tag : 2;
};
inline constexpr unsigned mbarrier_tag = 2;
inline constexpr unsigned most_arrivals = (1 << 20) - 1;

inline MbarrierBits mbarrier_bits(const uint64_t* barrier) { return __builtin_bit_cast(MbarrierBits, *barrier); }
inline void put(uint64_t* barrier, MbarrierBits bits) { *barrier = __builtin_bit_cast(uint64_t, bits); }

inline MbarrierBits checked_bits(const uint64_t* barrier, const char* what, Site site) {
    if (reinterpret_cast<uintptr_t>(barrier) % 8) fail(site, "%s: an mbarrier must be aligned to 8 bytes", what);
    const MbarrierBits bits = mbarrier_bits(barrier);
    if (bits.tag != mbarrier_tag) fail(site, "%s: the mbarrier is used before mbarrier_init", what);
    return bits;
}

/// A thread's wait for an mbarrier's phase. It is stored on the thread's own stack.
struct MbarrierWait {
    uint64_t* barrier;
    unsigned parity;
};

/// Lets the threads that wait for the completed phase continue. They do not check again, because the next phase may
/// also have completed before their turn comes.
inline void release_waiters(Block& block, const uint64_t* barrier, unsigned parity) {
    Thread *first = nullptr, *last = nullptr;
    for (Thread** link = &block.mbarrier_waiters; *link;) {
        Thread& thread = **link;
        const MbarrierWait& wait = *static_cast<const MbarrierWait*>(thread.operands);
        if (wait.barrier != barrier || wait.parity != parity) {
            link = &thread.next;
            continue;
        }
        *link = thread.next;
        thread.next = first;  // the list has the latest first
        first = &thread;
        if (last == nullptr) last = &thread;
    }
    push_ready_list(block, first, last);
}

bool wait_for_same_phase(const Thread& a, const Thread& b) {
    const auto& first = *static_cast<const MbarrierWait*>(a.operands);
    const auto& second = *static_cast<const MbarrierWait*>(b.operands);
    return first.barrier == second.barrier && first.parity == second.parity;
}

/// Appends what is still missing in the phase that a thread waits for.
void say_what_is_missing(const Thread& thread, ErrorText& text) {
    const MbarrierWait& wait = *static_cast<const MbarrierWait*>(thread.operands);
    const MbarrierBits bits = mbarrier_bits(wait.barrier);
    if (bits.tag != mbarrier_tag) {
        text.append(": the mbarrier has been overwritten");
        return;
    }
    text.append(": its phase of parity %u", unsigned(bits.phase));
    if (bits.pending) text.append(" lacks %u of %u arrivals", unsigned(bits.pending), unsigned(bits.count));
    if (bits.bytes > 0) text.append("%s lacks %lld expected bytes", bits.pending ? " and" : "", static_cast<long long>(bits.bytes));
    if (bits.bytes < 0) text.append("%s has received %lld unexpected bytes", bits.pending ? " and" : "", -static_cast<long long>(bits.bytes));
}

/// Begins the next phase if nothing is missing in this one.
inline void end_phase_if_complete(uint64_t* barrier, MbarrierBits bits, Site site) {
    if (bits.pending == 0 && bits.bytes == 0) {
        Block& owner = owner_of(barrier);
        release_waiters(owner, barrier, bits.phase);
        bits.phase ^= 1;
        bits.pending = bits.count;
        race::complete(barrier);
        if (traced()) trace(site, "mbarrier %p completes its phase %u", static_cast<void*>(barrier), 1u ^ bits.phase);
        owner.progress++;
        count_event(*current_thread->block);
    }
    put(barrier, bits);
}

/// Returns whether another lane of the warp has already done this at the same place, when all lanes do the same: they
/// initialise an mbarrier, or store one box. A device does it once for the whole warp. Here the lanes run one after the
/// other, so the first one may already have gone on.
inline bool is_done_by_other_lane(uintptr_t what, Site site) {
    Thread& thread = *current_thread;
    Block& block = *thread.block;
    const unsigned warp = thread.linear / warp_threads, lane = 1u << lane_of(thread);
    constexpr unsigned kept = sizeof(block.done_once) / sizeof(block.done_once[0]);
    WarpOnce& slot = block.done_once[what / 8 % kept];
    if (slot.what == what && slot.warp == warp && is_same_place(slot.site, site) && !(slot.lanes & lane)) {
        slot.lanes |= lane;
        return true;
    }
    slot = {what, warp, lane, site};
    block.has_done_once = true;
    return false;
}

void mbarrier_init(uint64_t* barrier, unsigned count, Site site) {
    if (count == 0 || count > most_arrivals) {
        fail(site, "mbarrier_init: the arrival count must be 1 to %u, not %u", most_arrivals, count);
    }
    if (reinterpret_cast<uintptr_t>(barrier) % 8) fail(site, "mbarrier_init: an mbarrier must be aligned to 8 bytes");
    if (is_done_by_other_lane(reinterpret_cast<uintptr_t>(barrier), site)) return;
    MbarrierBits bits{};
    bits.count = bits.pending = count;
    bits.tag = mbarrier_tag;
    put(barrier, bits);
    race::note_mbarrier_init(barrier, count, site);
}

void mbarrier_invalidate(uint64_t* barrier, Site site) {
    checked_bits(barrier, "mbarrier_invalidate", site);
    *barrier = 0;
    race::note_mbarrier_end(barrier, site);
}

inline void arrive_with(MbarrierBits bits, uint64_t* barrier, unsigned count, unsigned expected_bytes, Site site,
                        Ordering ordering) {
    if (count > bits.pending) {
        fail(site, "mbarrier_arrive: %u arrivals, but the phase waits for only %u of its %u", count,
             unsigned(bits.pending), unsigned(bits.count));
    }
    const bool is_own = &owner_of(barrier) == current_thread->block;
    if (ordering == Ordering::ordered) race::arrive(barrier);
    else race::arrive_relaxed(barrier, is_own ? Scope::block : Scope::cluster);
    bits.bytes += static_cast<int>(expected_bytes);
    bits.pending -= count;
    race::note_mbarrier_arrival(barrier, bits.pending, bits.count, site);
    end_phase_if_complete(barrier, bits, site);
    give_way();
}

uint64_t mbarrier_arrive(uint64_t* barrier, unsigned count, unsigned expected_bytes, Site site, Ordering ordering) {
    race::note_mbarrier_use(barrier, site);
    const uint64_t before = *barrier;
    arrive_with(checked_bits(barrier, "mbarrier_arrive", site), barrier, count, expected_bytes, site, ordering);
    return before;
}

uint64_t mbarrier_arrive_and_drop(uint64_t* barrier, unsigned count, unsigned expected_bytes, Site site, Ordering ordering) {
    race::note_mbarrier_use(barrier, site);
    const uint64_t before = *barrier;
    MbarrierBits bits = checked_bits(barrier, "mbarrier.arrive_drop", site);
    bits.count -= count < bits.count ? count : bits.count;
    arrive_with(bits, barrier, count, expected_bytes, site, ordering);
    return before;
}

void mbarrier_complete_bytes(uint64_t* barrier, unsigned bytes, Site site) {
    race::note_mbarrier_use(barrier, site);
    MbarrierBits bits = checked_bits(barrier, "mbarrier.complete_tx", site);
    bits.bytes -= static_cast<int>(bytes);
    end_phase_if_complete(barrier, bits, site);
    give_way();
}

}  // namespace tkjit::sim
