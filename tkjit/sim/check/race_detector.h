// Finds accesses of two threads to the same memory, one of them a write, that nothing orders; reads of shared memory
// (and of outputs) that nobody has written; and uses of what an asynchronous copy has not delivered yet.
//
// The compiler reports each access (instrumentation.h), and the simulator each barrier and copy (race.h). What orders
// accesses is what does on a device: barriers, __syncwarp, mbarriers, and atomics behind a fence or with an order. The
// warp's other operations do not (CUDA C++ Programming Guide, "Warp Shuffle Functions"), nor does running in step.
#pragma once

#include "places.h"
#include "clocks.h"
#include "shadow.h"

#include <set>
#include <tuple>

namespace tkjit::sim::race {

using check::places;
using check::Region;

/// What the detector keeps of a CUDA thread.
struct ThreadState {
    Knowledge knows;
    Knowledge released;  // at its last fence
    std::vector<unsigned> calls;  // places, outermost first
    unsigned copies[2] = {};      // that it has issued, by their copier
};

struct BlockState {
    unsigned number;
    uint3 index;
    std::vector<ThreadState> threads;
};

/// An object at which threads meet: what they know, and what they knew at their last fences, for the atomics behind it.
struct Meeting {
    Knowledge gathered, completed;
    Knowledge fences_gathered, fences_completed;
};

inline Shadow shadow;
inline std::unordered_map<const void*, Meeting> meetings;
inline std::unordered_map<const void*, Knowledge> atomics;
inline unsigned launches = 0;
inline std::set<std::tuple<std::string, uintptr_t, uintptr_t>> already_reported;
inline constexpr size_t most_findings = 64;

inline BlockState& state_of(const Block& block) { return *static_cast<BlockState*>(block.race_state); }
inline ThreadState& state_of(const Thread& thread) { return state_of(*thread.block).threads[thread.linear]; }

inline unsigned calling_place(const ThreadState& state) {
    return state.calls.empty() ? check::Places::root : state.calls.back();
}

inline Access access_of(const Thread& thread, Kind kind, unsigned where) {
    const unsigned clock = state_of(thread).knows.clock_of(thread.linear);
    return {launches, state_of(*thread.block).number, clock, where, static_cast<unsigned short>(thread.linear), kind};
}

/// Whether the running thread, or one that told it so, knows that an access is over.
inline bool is_before(const Access& earlier, const Thread& thread) {
    if (earlier.launch != launches) return true;
    if (earlier.block == state_of(*thread.block).number && earlier.thread == thread.linear) return true;
    return state_of(thread).knows.includes(earlier.block, earlier.thread, earlier.clock);
}

// ---- findings

inline check::Json described(const Access& access, const char* what) {
    const unsigned threads_x = blockDim.x, threads_y = blockDim.y;
    const unsigned linear = access.thread % (threads_x * threads_y * blockDim.z);  // a copy's is that of who issued it
    const uint3 thread{linear % threads_x, linear / threads_x % threads_y, linear / threads_x / threads_y};
    const uint3 block{access.block % gridDim.x, access.block / gridDim.x % gridDim.y, access.block / gridDim.x / gridDim.y};
    check::Json json = places.describe(access.where);
    return json.text("access", what).index("block", block).index("thread", thread);
}

/// Reports what was found, once for each pair of places.
inline void report(const char* kind, const Region& region, uintptr_t address, size_t bytes, const Access& access,
                   const char* what, const Access* other, const char* other_what) {
    const uintptr_t here = places[access.where].address, there = other ? places[other->where].address : 0;
    const auto [first, second] = here < there ? std::pair(here, there) : std::pair(there, here);
    if (already_reported.size() >= most_findings || !already_reported.emplace(kind, first, second).second) return;
    check::Json json;
    json.text("kind", kind).text("space", check::space_name(region.space)).text("name", region.name);
    json.number("offset", static_cast<long long>(address - region.begin)).number("bytes", static_cast<long long>(bytes));
    json.number("address", static_cast<long long>(address));
    json.object("here", described(access, what));
    if (other) json.object("there", described(*other, other_what));
    check::write_line(json);
}

inline const char* word_of(Kind kind, bool is_write) {
    if (kind == pending_copy) return "asynchronous copy";
    if (kind == atomic) return is_write ? "atomic update" : "atomic read";
    return is_write ? "write" : "read";
}

// ---- accesses

class Check {
  public:
    /// reads : whether it needs what is there, as an atomic update does that also writes
    Check(const Region& region, const Access& access, bool is_write, bool reads)
        : region_(region), access_(access), is_write_(is_write), reads_(reads) {}

    void operator()(Cell& cell, uintptr_t address, unsigned bytes) {
        const Thread& thread = *current_thread;
        if (cell.write.kind == pending_copy) {
            say("copy", address, bytes, &cell.write, true);
            cell.write.kind = plain;
        } else if (cell.write.kind == none && cell.update.kind == none) {
            if (reads_ && region_.starts_blank) note_blank(address, bytes);
        }
        for (const Access* earlier : {&cell.write, &cell.update}) {
            if (conflicts(*earlier) && !is_before(*earlier, thread)) say("race", address, bytes, earlier, true);
        }
        is_write_ ? write(cell, address, bytes) : read(cell);
    }

    /// At the end of a range: a read is of what nobody wrote if that is so of four bytes of it, or of all there are. Less
    /// is padding.
    void finish(size_t bytes) {
        const size_t enough = bytes < 4 ? bytes : 4;
        if (longest_blank_ >= enough) say("uninitialized", blank_address_, longest_blank_, nullptr, false);
    }

  private:
    bool conflicts(const Access& other) const {
        return other.kind != none && !(other.kind == atomic && access_.kind == atomic);
    }

    void say(const char* kind, uintptr_t address, size_t bytes, const Access* other, bool other_writes) {
        report(kind, region_, address, bytes, access_, word_of(access_.kind, is_write_), other,
               other ? word_of(other->kind, other_writes) : "");
    }

    void note_blank(uintptr_t address, unsigned bytes) {
        blank_ = address == blank_end_ ? blank_ + bytes : bytes;
        blank_end_ = address + bytes;
        if (blank_ <= longest_blank_) return;
        longest_blank_ = blank_;
        blank_address_ = blank_end_ - blank_;
    }

    void read(Cell& cell) {
        Access* slot = nullptr;
        for (Access& earlier : cell.reads) {
            // an atomic read conflicts with less than a plain one, and takes its place nowhere
            const bool says_less = access_.kind == atomic && earlier.kind == plain;
            if (earlier.kind == none || (!says_less && is_before(earlier, *current_thread))) {
                slot = &earlier;
                break;
            }
        }
        static unsigned turn = 0;
        (slot ? *slot : cell.reads[turn++ % Cell::readers]) = access_;
    }

    void write(Cell& cell, uintptr_t address, unsigned bytes) {
        for (const Access& earlier : cell.reads) {
            if (conflicts(earlier) && !is_before(earlier, *current_thread)) say("race", address, bytes, &earlier, false);
        }
        if (access_.kind == atomic) {
            cell.update = access_;  // what is plain stays: other atomics conflict with that
            return;
        }
        cell = {};
        cell.write = access_;
    }

    const Region& region_;
    const Access access_;
    const bool is_write_, reads_;
    size_t blank_ = 0, longest_blank_ = 0;
    uintptr_t blank_end_ = 0, blank_address_ = 0;
};

inline void access(const void* pointer, size_t bytes, bool is_write, bool reads, const Access& access) {
    const auto address = reinterpret_cast<uintptr_t>(pointer);
    const Region* region = check::region_of(address);
    if (region == nullptr || bytes == 0) return;
    if (address + bytes > region->end) bytes = region->end - address;
    Check check(*region, access, is_write, reads);
    shadow.for_each(address, bytes, [&](Cell& cell, uintptr_t piece, unsigned size) { check(cell, piece, size); });
    check.finish(bytes);
}

inline void access(const void* pointer, size_t bytes, bool is_write, bool reads, Kind kind, unsigned where) {
    access(pointer, bytes, is_write, reads, access_of(*current_thread, kind, where));
}

inline unsigned place_of(Site site) { return places.at(calling_place(state_of(*current_thread)), site); }

void read(const void* address, size_t bytes, Site site) { access(address, bytes, false, true, plain, place_of(site)); }
void write(const void* address, size_t bytes, Site site) { access(address, bytes, true, false, plain, place_of(site)); }

// ---- asynchronous copies

/// The running thread's own copy, for which it has waited: a write of its own, now.
Moment landing_of(const Moment& issued) {
    const Access access = access_of(*current_thread, plain, issued.where);
    return {access.launch, access.block, access.thread, access.clock, access.where};
}

inline Access access_of(const Moment& moment, Kind kind) {
    return {moment.launch, moment.block, moment.clock, moment.where, static_cast<unsigned short>(moment.thread), kind};
}

/// A copy counts as done by another thread, numbered behind those of the block, with a clock of its own: only those know
/// of it who have waited for it, and who issued it is not among them yet.
Moment pending(Copier copier, const void* destination, size_t bytes, Site site) {
    const Thread& thread = *current_thread;
    ThreadState& state = state_of(thread);
    const unsigned kind = static_cast<unsigned>(copier);
    const unsigned number = (1 + kind) * thread.block->thread_count + thread.linear;
    const Moment issued{launches, state_of(*thread.block).number, number, ++state.copies[kind], place_of(site)};
    access(destination, bytes, true, false, access_of(issued, pending_copy));
    return issued;
}

void read_meanwhile(const void* source, size_t bytes, const Moment& issued) {
    access(source, bytes, false, true, access_of(issued, plain));
}

void finish(const Moment& issued) {
    state_of(*current_thread).knows.learn(issued.block, issued.thread, issued.clock);
}

void landed(const void* destination, size_t bytes, const Moment& moment) {
    const auto address = reinterpret_cast<uintptr_t>(destination);
    if (check::region_of(address) == nullptr) return;
    shadow.for_each(address, bytes, [&](Cell& cell, uintptr_t, unsigned) {
        if (cell.write.kind != pending_copy) return;
        cell.write = access_of(moment, plain);
    });
}

// ---- meetings

void arrive(const void* object) {
    const Thread& thread = *current_thread;
    ThreadState& state = state_of(thread);
    Meeting& meeting = meetings[object];
    meeting.gathered.learn(state.knows);
    meeting.fences_gathered.learn(state.released);
    state.knows.advance(thread.linear);
}

/// What earlier phases gathered is kept: who waited for one may leave after the next is complete.
void complete(const void* object) {
    Meeting& meeting = meetings[object];
    meeting.completed.learn(meeting.gathered);
    meeting.fences_completed.learn(meeting.fences_gathered);
    meeting.gathered.clear();
    meeting.fences_gathered.clear();
}

void leave(const void* object) {
    ThreadState& state = state_of(*current_thread);
    const Meeting& meeting = meetings[object];
    state.knows.learn(meeting.completed);
    state.released.learn(meeting.fences_completed);
}

void arrive_for(const void* object, const Moment& issued) {
    meetings[object].gathered.learn(issued.block, issued.thread, issued.clock);
}

// ---- atomics

/// A fence: what the thread knows now is told by its later atomics, whatever their order.
inline void fence() {
    ThreadState& state = state_of(*current_thread);
    state.released = state.knows;
    state.knows.advance(current_thread->linear);
}

/// An atomic operation. The side that reads is taken to acquire always: kernels put fences where they write.
inline void atomic_access(const void* address, size_t bytes, bool is_write, bool reads, bool releases, unsigned where) {
    const Thread& thread = *current_thread;
    ThreadState& state = state_of(thread);
    access(address, bytes, is_write, reads, atomic, where);
    // a part of a word may be read where all of it was written
    const void* const word = reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(address) & ~uintptr_t{7});
    if (const auto known = atomics.find(word); known != atomics.end()) state.knows.learn(known->second);
    if (!is_write) return;
    if (releases) {
        atomics[word].learn(state.knows);
        state.knows.advance(thread.linear);
    } else if (!state.released.is_empty()) {
        atomics[word].learn(state.released);
    }
}

// ---- launches and blocks

void begin_launch() {
    launches++;
    meetings.clear();
    atomics.clear();
}

/// Shared memory means nothing when a block begins: it is full of NaN, and counts as never written.
inline void blank_shared_memory(const Block& block) {
    const check::OwnMemory own = check::own_memory();
    const size_t dynamic_bytes = block.launch->dynamic_shared_bytes;
    check::add_region(block.dynamic_shared, dynamic_bytes, check::Space::dynamic_shared, "", true);
    check::add_region(own.shared, own.shared_bytes, check::Space::static_shared, "", true);
    const auto blank = [](void* begin, size_t bytes) {
        if (bytes == 0) return;
        fill(begin, 0xff, bytes);
        shadow.clear(reinterpret_cast<uintptr_t>(begin), bytes);
    };
    blank(block.dynamic_shared, dynamic_bytes);
    blank(own.shared, own.shared_bytes);
}

void begin_block(Block& block) {
    auto* const state = new BlockState;
    state->number = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    state->index = blockIdx;
    state->threads.resize(block.thread_count);
    for (unsigned i = 0; i < block.thread_count; i++) state->threads[i].knows.begin(state->number, i, block.thread_count);
    block.race_state = state;
    if (!block.launch->cooperative) {
        meetings.clear();  // the next block's lie where this one's did
        std::erase_if(atomics, [](const auto& one) {
            const Region* region = check::region_of(reinterpret_cast<uintptr_t>(one.first));
            return region && region->starts_blank && region->space != check::Space::tensor;
        });
    }
    blank_shared_memory(block);
}

/// A block's state is nobody's any more, and the shared memory of one that had an OS thread for itself is gone with that.
void end_block(Block& block) {
    delete static_cast<BlockState*>(block.race_state);
    block.race_state = nullptr;
    if (!block.launch->cooperative) return;
    const auto dynamic_shared = reinterpret_cast<uintptr_t>(block.dynamic_shared);
    const auto static_shared = reinterpret_cast<uintptr_t>(check::own_memory().shared);
    std::erase_if(check::regions, [&](const Region& region) {
        return region.begin == dynamic_shared || region.begin == static_shared;
    });
}

void begin_thread(Thread& thread) { state_of(thread).calls.clear(); }

/// Outputs that the launches have not written wholly: a finding for each.
inline void report_unwritten(const Region& region) {
    size_t missing = 0;
    uintptr_t first = 0;
    shadow.for_each(region.begin, region.end - region.begin, [&](const Cell& cell, uintptr_t address, unsigned bytes) {
        if (cell.write.kind != none || cell.update.kind != none) return;
        if (missing == 0) first = address;
        missing += bytes;
    });
    if (missing == 0) return;
    check::Json json;
    json.text("kind", "unwritten").text("space", check::space_name(region.space)).text("name", region.name);
    json.number("offset", static_cast<long long>(first - region.begin)).number("bytes", static_cast<long long>(missing));
    check::write_line(json);
}

}  // namespace tkjit::sim::race
