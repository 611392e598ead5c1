// Accesses to tensor memory (`tcgen05`). The products and copies of one thread are done in the order in which it issues
// them. All other operations there are unordered until they have been waited for: a warp's loads and stores by
// tcgen05.wait, a thread's products and copies at an mbarrier at which tcgen05.commit arrives.
//
// Source: PTX ISA, "tcgen05 memory consistency model".
#pragma once

#include "../detail/block.h"
#include "../detail/site.h"
#include "../detail/tcgen05.h"
#include "../detail/warp.h"
#include "findings.h"
#include "race.h"
#include "race_accesses.h"
#include "race_aligned.h"
#include "race_copies.h"
#include "race_state.h"

#include <string.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace tkjit::sim::race {

inline constexpr unsigned lanes_per_cell = 16;

struct TensorCell {
    static constexpr unsigned readers = 4;
    Access write;
    Access reads[readers];
    bool is_allocated;
};

struct TensorCells {
    TensorCell cells[tensor_lanes / lanes_per_cell][tensor_columns];
};

/// What an operation of a kind in tensor memory is called, and how a thread waits for it.
inline const char* name_of_tensor_operation(Copier copier, bool is_write) {
    if (copier == Copier::tensor_loads) return "tcgen05.ld";
    if (copier == Copier::tensor_stores) return "tcgen05.st";
    return is_write ? "tcgen05 write" : "tcgen05 read";
}
inline const char* wait_of(Copier copier) {
    if (copier == Copier::tensor_loads) return "the warp must call tcgen05.wait::ld before it meets the thread that goes on";
    if (copier == Copier::tensor_stores) return "the warp must call tcgen05.wait::st before it meets the thread that goes on";
    return "call tcgen05.commit after it, and wait at the mbarrier";
}

/// Returns what issued an access, from the number that stands for its thread.
inline Copier copier_of(const Access& access) {
    const dim3 block = launch_states[access.launch - 1].block;
    return static_cast<Copier>(access.thread / (block.x * block.y * block.z) - 1);
}

class TensorCheck {
  public:
    struct How {
        bool writes, reads;
        // Whether all lanes of the running warp make the access together. It is then enough if one of them knows that an
        // earlier one is over.
        bool is_of_warp;
        bool frees;
    };

    TensorCheck(const Access& access, How how) : access_(access), how_(how) {}

    void operator()(TensorCell& cell, unsigned lane, unsigned column) {
        if (how_.reads && cell.write.kind == none && cell.is_allocated) report_blank(lane, column);
        compare(cell.write, true, lane, column);
        if (!how_.writes) return read(cell);
        for (const Access& earlier : cell.reads) compare(earlier, false, lane, column);
        const bool is_allocated = cell.is_allocated;
        cell = {};
        cell.write = access_;
        cell.is_allocated = is_allocated;
    }

  private:
    void compare(const Access& earlier, bool earlier_writes, unsigned lane, unsigned column) {
        if (earlier.kind == none || earlier.launch != launches || is_same_issuer(earlier)) return;
        if (!is_over(earlier)) report_race(earlier, earlier_writes, lane, column);
        else if (!how_.frees && !is_fenced(earlier)) report_fence(earlier, earlier_writes, lane, column);
    }

    /// The issuer's operations of one kind are in order, except that columns must not be freed while they are stored to.
    bool is_same_issuer(const Access& earlier) const {
        return !how_.frees && earlier.block == access_.block && earlier.thread == access_.thread;
    }

    /// Returns whether the running thread, or another one of the warp whose access it is, has a property.
    template <class Test>
    bool holds_in_warp(Test test) const {
        if (test(state_of(*current_thread))) return true;
        const Thread* const first = current_thread - lane_of(*current_thread);
        for (unsigned lane = 0; how_.is_of_warp && lane < warp_threads; lane++) {
            if (test(state_of(first[lane]))) return true;
        }
        return false;
    }

    /// Products and copies also follow those of other threads that have executed the fences, without a wait.
    bool is_over(const Access& earlier) const {
        const bool are_pipelined = copier_of(access_) == Copier::tensor_products && copier_of(earlier) == Copier::tensor_products;
        return holds_in_warp([&](const ThreadState& state) {
            return state.knows.includes(earlier.block, earlier.thread, earlier.clock) ||
                   (are_pipelined && state.tensor_fences.have_ordered(earlier.block, earlier.thread, earlier.clock));
        });
    }

    /// Within a warp, the wait is enough after a load or a store.
    bool is_fenced(const Access& earlier) const {
        const unsigned warp_of_earlier = earlier.thread % current_block->thread_count / warp_threads;
        const bool is_same_warp = copier_of(earlier) != Copier::tensor_products &&
                                  earlier.block == state_of(*current_block).number &&
                                  warp_of_earlier == current_thread->linear / warp_threads;
        return is_same_warp || holds_in_warp([&](const ThreadState& state) {
            return state.tensor_fences.have_ordered(earlier.block, earlier.thread, earlier.clock);
        });
    }

    void read(TensorCell& cell) {
        for (Access& earlier : cell.reads) {
            if (earlier.kind != none && earlier.launch == launches && !is_same_issuer(earlier) && !is_over(earlier)) continue;
            earlier = access_;
            return;
        }
        static unsigned turn = 0;
        cell.reads[turn++ % TensorCell::readers] = access_;
    }

    void report_blank(unsigned lane, unsigned column) {
        if (!told().emplace(access_.where, 0, "blank").second) return;
        const std::string text = place(lane, column) + " of tensor memory is read before anything has written it; let the first "
                                 "tcgen05.mma of a sum not add to D (enable-input-d false), or store zeros first";
        check::Json json;
        check::write_line(json.text("kind", "uninitialized").text("text", text).object("here", described(access_, name())));
    }

    void report_race(const Access& earlier, bool earlier_writes, unsigned lane, unsigned column) {
        const std::string what = name_of_tensor_operation(copier_of(earlier), earlier_writes);
        report_pair("race", earlier, what,
                    "nothing orders two accesses to " + place(lane, column) + " of tensor memory; after the " + what + ", " +
                        wait_of(copier_of(earlier)));
    }

    void report_fence(const Access& earlier, bool earlier_writes, unsigned lane, unsigned column) {
        const char* const missing =
            copier_of(earlier) == Copier::tensor_products
                ? "tcgen05.fence::after_thread_sync; call it after the wait"
                : "both tcgen05.fence::before_thread_sync, before the threads meet, and ::after_thread_sync, after it";
        report_pair("fence", earlier, name_of_tensor_operation(copier_of(earlier), earlier_writes),
                    "two threads access " + place(lane, column) + " of tensor memory in order, but without " + missing);
    }

    void report_pair(const char* kind, const Access& earlier, const std::string& what, const std::string& text) {
        const auto [first, second] = std::minmax(access_.where, earlier.where);
        if (!told().emplace(first, second, kind).second) return;
        check::Json json;
        if (strcmp(kind, "fence") == 0) json.number("warning", 1);
        json.text("kind", kind).text("text", text).object("here", described(access_, name()));
        check::write_line(json.object("there", described(earlier, what.c_str())));
    }

    const char* name() const {
        return how_.frees ? "tcgen05.dealloc" : name_of_tensor_operation(copier_of(access_), how_.writes);
    }

    static std::string place(unsigned lane, unsigned column) {
        return "lane " + std::to_string(lane) + ", column " + std::to_string(column);
    }

    using Told = std::set<std::tuple<unsigned, unsigned, std::string>>;
    static Told& told() {
        static Told told;
        return told;
    }

    const Access access_;
    const How how_;
};

/// Visits the cells of a place. The tensor memory of a block that has not begun, or has exited, has none.
template <class Visit>
inline void for_each_tensor_cell(const Block& block, unsigned lane, unsigned lanes, unsigned column, unsigned columns,
                                 Visit visit) {
    if (block.race_state == nullptr) return;
    std::shared_ptr<TensorCells>& all = state_of(block).tensor_cells;
    if (all == nullptr) all = std::make_shared<TensorCells>();
    const unsigned end = lane + lanes < tensor_lanes ? lane + lanes : tensor_lanes;
    for (unsigned first = lane / lanes_per_cell * lanes_per_cell; first < end; first += lanes_per_cell) {
        for (unsigned i = column; i < column + columns; i++) visit(all->cells[first / lanes_per_cell][i], first, i);
    }
}

void begin_tensor_memory(unsigned column, unsigned columns) {
    const auto allocate = [](TensorCell& cell, unsigned, unsigned) { cell.is_allocated = true; };
    for_each_tensor_cell(*current_block, 0, tensor_lanes, column, columns, allocate);
}

/// An access by the running thread's warp, or by the warp's loads or stores.
inline Moment tensor_access(Copier copier, Site site) {
    return begin(copier, *(current_thread - lane_of(*current_thread)), site);
}

void note_dealloc(unsigned column, unsigned columns, Site site) {
    const Access access = access_of(tensor_access(Copier::tensor_stores, site), asynchronous);
    TensorCheck check(access, {.writes = true, .reads = false, .is_of_warp = true, .frees = true});
    for_each_tensor_cell(*current_block, 0, tensor_lanes, column, columns, [&](TensorCell& cell, unsigned lane, unsigned i) {
        check(cell, lane, i);
        cell = {};
    });
}

void access_tensor_memory(unsigned lane, unsigned lanes, unsigned column, unsigned columns, bool is_store, Site site) {
    const Moment issued = tensor_access(is_store ? Copier::tensor_stores : Copier::tensor_loads, site);
    const Thread* const first = current_thread - lane_of(*current_thread);
    for (unsigned i = 0; i < warp_threads && !is_store; i++) state_of(first[i]).last_tensor_load = issued.where;
    for_each_tensor_cell(*current_block, lane, lanes, column, columns,
                         TensorCheck(access_of(issued, asynchronous), {is_store, !is_store, true, false}));
}

void use_tensor_memory(const Block& block, unsigned lane, unsigned lanes, unsigned column, unsigned columns, bool is_write,
                       const Moment& issued, bool reads) {
    for_each_tensor_cell(block, lane, lanes, column, columns,
                         TensorCheck(access_of(issued, asynchronous), {is_write, reads, false, false}));
}

void finish_tensor_accesses(bool stores, Site site) {
    note_aligned(stores ? Aligned::tensor_wait_st : Aligned::tensor_wait_ld, site);
    const Copier copier = stores ? Copier::tensor_stores : Copier::tensor_loads;
    const Thread& first = *(current_thread - lane_of(*current_thread));
    const unsigned issued = state_of(first).copies[static_cast<unsigned>(copier)];
    finish({launches, state_of(*first.block).number, numbered(copier, first), issued, 0});
    const auto is_loaded = [](const PendingRegisters& one) { return one.use == RegisterUse::loaded; };
    if (!stores) std::erase_if(state_of(*current_thread).pending_registers, is_loaded);
}

/// Adds what the running thread has issued.
inline Knowledge with_own_products(Knowledge known) {
    const Thread& thread = *current_thread;
    known.learn(state_of(*thread.block).number, numbered(Copier::tensor_products, thread),
                state_of(thread).copies[static_cast<unsigned>(Copier::tensor_products)]);
    return known;
}

Moment begin_tensor_operation(Site site) {
    ThreadState& state = state_of(*current_thread);
    state.at_tensor_operation = std::make_shared<const View>(state);
    state.knows.advance(current_thread->linear);  // what the thread does from now on is not part of it
    return begin_copy(Copier::tensor_products, site);
}

Moment last_tensor_operation(Site site) {
    const Thread& thread = *current_thread;
    return {launches, state_of(*thread.block).number, numbered(Copier::tensor_products, thread),
            state_of(thread).copies[static_cast<unsigned>(Copier::tensor_products)], place_of(site)};
}

void fence_tensor_memory(bool before_meeting) {
    ThreadState& state = state_of(*current_thread);
    if (!before_meeting) return state.tensor_fences.acquire();
    state.tensor_fences.release(with_own_products(state.knows));
    state.knows.advance(current_thread->linear);
}

/// Passes on what had happened before the thread's last operation, which is over when that is, and releases the operations.
void release_tensor_operations(const void* object) {
    View& gathered = meetings[object].gathered;
    const auto& view = state_of(*current_thread).at_tensor_operation;
    if (view == nullptr) return;
    gathered.learn(*view);
    gathered.tensor_fences.release(with_own_products(view->knows));
}

}  // namespace tkjit::sim::race
