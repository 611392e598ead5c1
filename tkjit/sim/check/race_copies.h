// Asynchronous copies and products. The race detector treats each as a separate thread, which may access its memory
// until another thread has waited for it.
#pragma once

#include "../detail/block.h"
#include "../detail/site.h"
#include "../detail/wgmma.h"
#include "race.h"
#include "race_accesses.h"
#include "race_state.h"
#include "regions.h"
#include "shadow.h"

#include <stddef.h>
#include <stdint.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

namespace tkjit::sim::race {

/// Called when the running thread has waited for its own copy, which now counts as a write by this thread.
Moment landing_of(const Moment& issued) {
    const Access access = access_of(*current_thread, plain, issued.where);
    return {access.launch, access.block, access.thread, access.clock, access.where};
}

inline Access access_of(const Moment& moment, Kind kind) {
    return {moment.launch, moment.block, moment.clock, moment.where, static_cast<unsigned short>(moment.thread), kind};
}

/// A copy counts as the work of another thread, which is numbered after the block's threads and has its own clock. Only
/// threads that have waited for the copy know about it; the thread that issued the copy does not yet know.
inline unsigned numbered(Copier copier, const Thread& thread) {
    return (1 + static_cast<unsigned>(copier)) * thread.block->thread_count + thread.linear;
}

inline Moment begin(Copier copier, const Thread& thread, Site site) {
    unsigned& clock = state_of(thread).copies[static_cast<unsigned>(copier)];
    return {launches, state_of(*thread.block).number, numbered(copier, thread), ++clock, place_of(site)};
}

Moment begin_copy(Copier copier, Site site) { return begin(copier, *current_thread, site); }

/// The last arriving thread's knowledge, saved while the product's reads are checked with the knowledge that all
/// threads share.
inline View set_aside;

/// Reports a wrong use of wgmma, but only once for each place.
inline void report_product(const Access& product, const char* text) {
    static std::set<std::pair<unsigned, std::string>> told;
    if (!told.emplace(product.where, text).second) return;
    check::Json json;
    check::write_line(json.text("kind", "wgmma").text("text", text).object("here", described(product, "wgmma")));
}

Moment begin_product(const Thread& first_of_warpgroup, Site site) {
    const Moment issued = begin(Copier::products, first_of_warpgroup, site);
    state_of(first_of_warpgroup).last_product = issued.where;
    bool is_fenced = true;
    for (unsigned i = 0; i < warpgroup_threads; i++) is_fenced &= state_of((&first_of_warpgroup)[i]).has_fenced_registers;
    if (!is_fenced) {
        report_product(access_of(issued, asynchronous),
                       "nothing orders the registers of the sums before this wgmma; call wgmma_fence(sums) first, and again "
                       "after wgmma_wait");
    }
    View& view = state_of(*current_thread);
    set_aside = view;
    for (unsigned i = 0; i < warpgroup_threads; i++) view.keep_common(state_of((&first_of_warpgroup)[i]));
    return issued;
}

void end_reads_of_product() { static_cast<View&>(state_of(*current_thread)) = set_aside; }

Moment pending(Copier copier, const void* destination, size_t bytes, Site site) {
    const Moment issued = begin_copy(copier, site);
    write_meanwhile(destination, bytes, issued);
    return issued;
}

void read_meanwhile(const void* source, size_t bytes, const Moment& issued) {
    access(source, bytes, false, true, access_of(issued, asynchronous));
}

void read_by_copy(const void* source, size_t bytes, const Moment& issued) {
    access(source, bytes, false, true, access_of(issued, plain));
}

void write_meanwhile(const void* destination, size_t bytes, const Moment& issued) {
    access(destination, bytes, true, false, access_of(issued, pending_copy));
}

void update_meanwhile(const void* destination, size_t bytes, const Moment& issued) {
    access(destination, bytes, true, true, access_of(issued, atomic));
}

void finish(const Moment& issued) {
    state_of(*current_thread).knows.learn(issued.block, issued.thread, issued.clock);
}

void commit_stores() {
    ThreadState& state = state_of(*current_thread);
    state.store_groups.push_back(state.copies[static_cast<unsigned>(Copier::store_writes)]);
}

void finish_store_writes(unsigned pending_groups) {
    const Thread& thread = *current_thread;
    std::vector<unsigned>& groups = state_of(thread).store_groups;
    if (groups.size() <= pending_groups) return;
    const auto over = groups.end() - pending_groups;
    finish({launches, state_of(*thread.block).number, numbered(Copier::store_writes, thread), over[-1], 0});
    groups.erase(groups.begin(), over);
}

void landed(const void* destination, size_t bytes, const Moment& moment) {
    const auto address = reinterpret_cast<uintptr_t>(destination);
    if (check::region_of(address) == nullptr) return;
    shadow.for_each(address, bytes, [&](Cell& cell, uintptr_t, unsigned) {
        if (cell.write.kind != pending_copy) return;
        cell.write = access_of(moment, asynchronous);
    });
}

// ---- products of warpgroups

/// Called when a block ends: reports products whose sums nobody has waited for.
inline void check_products(const Block& block) {
    if (block.abandoned) return;
    for (unsigned first = 0; first < block.thread_count; first += warpgroup_threads) {
        const ThreadState& state = state_of(block.threads[first]);
        const unsigned issued = state.copies[static_cast<unsigned>(Copier::products)];
        if (state.finished_products == issued) continue;
        const Moment last{launches, state_of(block).number, first, issued, state.last_product};
        report_product(access_of(last, asynchronous),
                       state.committed_products < issued
                           ? "this wgmma is never committed, so a wait does not cover it; call wgmma_commit() after it"
                           : "no thread waits for this wgmma; call wgmma_wait<0>(sums) before the sums are used");
    }
}

inline const Thread& first_of_warpgroup(const Thread& thread) {
    return thread.block->threads[thread.linear / warpgroup_threads * warpgroup_threads];
}

}  // namespace tkjit::sim::race

namespace tkjit::sim {

void commit_wgmma() {
    using namespace race;
    const ThreadState& first = state_of(first_of_warpgroup(*current_thread));
    ThreadState& state = state_of(*current_thread);
    state.committed_products = first.copies[static_cast<unsigned>(Copier::products)];
    state.groups.push_back(state.committed_products);
}

void fence_wgmma() { race::state_of(*current_thread).has_fenced_registers = true; }

void wait_for_wgmma(unsigned pending_groups) {
    using namespace race;
    const Thread& thread = *current_thread;
    std::vector<unsigned>& groups = state_of(thread).groups;
    if (pending_groups == 0) state_of(thread).has_fenced_registers = false;
    if (groups.size() <= pending_groups) return;
    const auto over = groups.end() - pending_groups;
    const Moment last{launches, state_of(*thread.block).number, numbered(Copier::products, first_of_warpgroup(thread)),
                      over[-1], 0};
    finish(last);
    state_of(thread).finished_products = last.clock;
    groups.erase(groups.begin(), over);
}

}  // namespace tkjit::sim
