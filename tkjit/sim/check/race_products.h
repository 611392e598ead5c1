// Products of warpgroups (`wgmma`), and registers in use by them or by loads from tensor memory. Like a copy, a product
// counts as a separate thread, which reads its tiles until each thread of the warpgroup has waited for it. Until then, no
// thread may use the product's registers.
//
// Source: PTX ISA, "wgmma.mma_async", "wgmma.fence", "wgmma.wait_group".
#pragma once

#include "../detail/block.h"
#include "../detail/site.h"
#include "../detail/wgmma.h"
#include "../runtime/fiber.h"
#include "findings.h"
#include "race.h"
#include "race_accesses.h"
#include "race_aligned.h"
#include "race_copies.h"
#include "race_state.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <algorithm>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace tkjit::sim::race {

/// The last arriving thread's knowledge, saved while the product's reads are checked with the knowledge that all
/// threads share.
inline View set_aside;

/// Reports a wrong use of wgmma, but only once for each pair of places.
inline void report_product(const Access& access, const char* what, const char* text, const Access* other = nullptr,
                           const char* other_what = "wgmma", const char* kind = "wgmma") {
    static std::set<std::tuple<unsigned, unsigned, std::string>> told;
    if (!told.emplace(access.where, other ? other->where : 0, text).second) return;
    check::Json json;
    if (strcmp(kind, "tcgen05") == 0) json.number("warning", 1);  // CUTLASS and ThunderKittens rely on it
    json.text("kind", kind).text("text", text).object("here", described(access, what));
    if (other) json.object("there", described(*other, other_what));
    check::write_line(json);
}

Moment begin_product(const Thread& first_of_warpgroup, Site site) {
    const Moment issued = begin(Copier::products, first_of_warpgroup, site);
    state_of(first_of_warpgroup).last_product = issued.where;
    check_aligned(*first_of_warpgroup.block, first_of_warpgroup.linear, first_of_warpgroup.linear + warpgroup_threads);
    bool is_fenced = true;
    for (unsigned i = 0; i < warpgroup_threads; i++) is_fenced &= state_of((&first_of_warpgroup)[i]).has_fenced_registers;
    if (!is_fenced) {
        report_product(access_of(issued, asynchronous), "wgmma",
                       "nothing orders the registers of the sums before this wgmma; call wgmma_fence(sums) first, and again "
                       "after wgmma_wait");
    }
    View& view = state_of(*current_thread);
    set_aside = view;
    for (unsigned i = 0; i < warpgroup_threads; i++) view.keep_common(state_of((&first_of_warpgroup)[i]));
    return issued;
}

void end_reads_of_product() { static_cast<View&>(state_of(*current_thread)) = set_aside; }

/// Called when a block ends: reports products whose sums nobody has waited for.
inline void check_products(const Block& block) {
    if (block.abandoned) return;
    check_aligned(block, 0, block.thread_count);
    for (unsigned first = 0; first < block.thread_count; first += warpgroup_threads) {
        const ThreadState& state = state_of(block.threads[first]);
        const unsigned issued = state.copies[static_cast<unsigned>(Copier::products)];
        if (state.finished_products == issued) continue;
        const Moment last{launches, state_of(block).number, first, issued, state.last_product};
        report_product(access_of(last, asynchronous), "wgmma",
                       state.committed_products < issued
                           ? "this wgmma is never committed, so a wait does not cover it; call wgmma_commit() after it"
                           : "no thread waits for this wgmma; call wgmma_wait<0>(sums) before the sums are used");
    }
}

inline const Thread& first_of_warpgroup(const Thread& thread) {
    return thread.block->threads[thread.linear / warpgroup_threads * warpgroup_threads];
}

/// Returns pending registers that the running thread may not access yet, or null. The compiler reports accesses to local
/// variables whose address the kernel, or the simulator's function, takes.
inline const PendingRegisters* find_pending_registers(const void* address, size_t bytes, bool is_write) {
    const ThreadState& state = state_of(*current_thread);
    if (state.in_asynchronous_statement) return nullptr;
    const auto begin = reinterpret_cast<uintptr_t>(address);
    for (const PendingRegisters& one : state.pending_registers) {
        const bool is_apart = begin + bytes <= one.begin || one.end <= begin;
        if (!is_apart && (is_write || one.use != RegisterUse::a)) return &one;
    }
    return nullptr;
}

inline constexpr uintptr_t register_bytes = 4;

/// Whether a write to a local variable has to be recorded, because a product may use it before a wgmma.fence follows.
inline bool records_register_writes(const void* address) {
    const ThreadState& state = state_of(*current_thread);
    if (!state.has_fenced_registers || state.in_asynchronous_statement || state.frames.empty()) return false;
    // not the heap, where the detector's own containers are
    const auto top = reinterpret_cast<uintptr_t>(current_thread->stack->lowest) + stack_bytes;
    const auto place = reinterpret_cast<uintptr_t>(address);
    return state.frames.back() <= place && place < top;
}

inline void note_register_write(const void* address, size_t bytes, unsigned where) {
    constexpr size_t most_words = 4096;  // of all variables of a thread; large arrays are no operands
    ThreadState& state = state_of(*current_thread);
    if (state.written_registers.size() > most_words) state.written_registers.clear();
    const auto begin = reinterpret_cast<uintptr_t>(address);
    for (uintptr_t word = begin / register_bytes; word * register_bytes < begin + bytes; word++) {
        state.written_registers[word] = where;
    }
}

/// Reports a write to an operand of the product that was just issued, if no wgmma.fence lies between them.
inline void check_operand(const void* registers, size_t bytes, unsigned product_where) {
    const ThreadState& state = state_of(*current_thread);
    if (state.written_registers.empty()) return;
    const auto begin = reinterpret_cast<uintptr_t>(registers);
    for (uintptr_t word = begin / register_bytes; word * register_bytes < begin + bytes; word++) {
        const auto written = state.written_registers.find(word);
        if (written == state.written_registers.end()) continue;
        const Access write = access_of(*current_thread, plain, written->second);
        report_product(access_of(*current_thread, asynchronous, product_where), "wgmma",
                       "registers of this wgmma are written after the last wgmma.fence; call wgmma_fence(sums) between the "
                       "write and the product",
                       &write, "write");
        return;
    }
}

inline void report_registers(const PendingRegisters& registers, bool is_write, unsigned where) {
    static constexpr const char* texts[] = {
        "a thread uses the sums of a wgmma that it has not waited for; call wgmma_wait<0>(sums) first",
        "a thread writes registers of A that a wgmma may still read; call wgmma_wait<0>(sums) first",
        "a thread uses the registers of a tcgen05.ld that it has not waited for; call tcgen05.wait::ld first",
    };
    const Access other = access_of(*current_thread, asynchronous, registers.where);
    const bool is_load = registers.use == RegisterUse::loaded;
    report_product(access_of(*current_thread, plain, where), is_write ? "write" : "read",
                   texts[static_cast<unsigned>(registers.use)], &other, is_load ? "tcgen05.ld" : "wgmma",
                   is_load ? "tcgen05" : "wgmma");
}

}  // namespace tkjit::sim::race

namespace tkjit::sim {

void commit_wgmma(Site site) {
    using namespace race;
    note_aligned(Aligned::wgmma_commit, site);
    const ThreadState& first = state_of(first_of_warpgroup(*current_thread));
    ThreadState& state = state_of(*current_thread);
    state.committed_products = first.copies[static_cast<unsigned>(Copier::products)];
    state.groups.push_back(state.committed_products);
}

void fence_wgmma(Site site) {
    using namespace race;
    note_aligned(Aligned::wgmma_fence, site);
    ThreadState& state = state_of(*current_thread);
    state.has_fenced_registers = true;
    state.written_registers.clear();
}

void wait_for_wgmma(unsigned pending_groups, Site site) {
    using namespace race;
    note_aligned(Aligned::wgmma_wait, site);
    const Thread& thread = *current_thread;
    std::vector<unsigned>& groups = state_of(thread).groups;
    if (pending_groups == 0) state_of(thread).has_fenced_registers = false;
    if (groups.size() <= pending_groups) return;
    const auto over = groups.end() - pending_groups;
    const Moment last{launches, state_of(*thread.block).number, numbered(Copier::products, first_of_warpgroup(thread)),
                      over[-1], 0};
    finish(last);
    state_of(thread).finished_products = last.clock;
    std::erase_if(state_of(thread).pending_registers,
                  [&](const auto& one) { return one.use != RegisterUse::loaded && one.product <= last.clock; });
    groups.erase(groups.begin(), over);
}

/// The registers of an `asm` statement come one by one, and most of them continue those before them.
void note_registers(const void* registers, size_t bytes, RegisterUse use) {
    using namespace race;
    const bool is_load = use == RegisterUse::loaded;
    const ThreadState& first = state_of(first_of_warpgroup(*current_thread));
    const unsigned product = is_load ? 0 : first.copies[static_cast<unsigned>(Copier::products)];
    const unsigned where = is_load ? state_of(*current_thread).last_tensor_load : first.last_product;
    if (!is_load) check_operand(registers, bytes, where);
    const auto begin = reinterpret_cast<uintptr_t>(registers);
    std::vector<PendingRegisters>& known = state_of(*current_thread).pending_registers;
    for (PendingRegisters& one : known) {
        if (one.use != use) continue;
        const bool is_within = one.begin <= begin && begin + bytes <= one.end;
        if (!is_within && (one.end != begin || one.product != product)) continue;
        if (!is_within) one.end += bytes;
        one.product = product;
        one.where = where;
        return;
    }
    known.push_back({begin, begin + bytes, product, where, use});
}

AsynchronousStatement::AsynchronousStatement() { race::state_of(*current_thread).in_asynchronous_statement = true; }
AsynchronousStatement::~AsynchronousStatement() { race::state_of(*current_thread).in_asynchronous_statement = false; }

}  // namespace tkjit::sim
