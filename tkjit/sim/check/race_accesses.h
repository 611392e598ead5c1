// Compares each access with earlier accesses, and reports races.
#pragma once

#include "../detail/block.h"
#include "../detail/cluster.h"
#include "../detail/site.h"
#include "../detail/vector_types.h"
#include "findings.h"
#include "places.h"
#include "race.h"
#include "race_state.h"
#include "regions.h"
#include "shadow.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <set>
#include <string>
#include <tuple>
#include <utility>

namespace tkjit::sim::race {

// ---- findings

inline std::set<std::tuple<std::string, uintptr_t, uintptr_t>> already_reported;
inline constexpr size_t most_findings = 256;  // separately for warnings, so that they crowd out no finding

inline check::Json described(const Access& access, const char* what) {
    const LaunchState& launch = launch_states[access.launch - 1];
    const dim3 threads = launch.block;
    const unsigned linear = access.thread % (threads.x * threads.y * threads.z);  // for a copy, its issuer's
    const uint3 thread{linear % threads.x, linear / threads.x % threads.y, linear / threads.x / threads.y};
    check::Json json = places.describe(access.where);
    return json.text("access", what).index("block", index_of_block(launch, access.block)).index("thread", thread);
}

/// Returns whether the hardware defines what concurrent accesses of this kind do: PTX treats volatile accesses as
/// relaxed atomics, but CUDA C++ does not. Source: PTX ISA, "Memory Consistency Model", and the CUDA C++ Programming
/// Guide, "volatile".
inline bool is_soft(Kind kind) { return kind == atomic || kind == volatile_access; }
inline bool is_scoped(Kind kind) { return kind == block_atomic || kind == cluster_atomic; }
inline bool is_atomic(Kind kind) { return kind == atomic || is_scoped(kind); }

/// Returns whether the scope of one access includes the thread of the other.
inline bool includes(const Access& one, const Access& other) {
    if (one.kind == block_atomic) return one.block == other.block;
    if (one.kind != cluster_atomic) return true;
    return cluster_of(one.launch, one.block) == cluster_of(other.launch, other.block);
}

/// Reports a finding, but only once for each pair of places.
inline void report(const char* kind, const Region& region, uintptr_t address, size_t bytes, const Access& access,
                   const char* what, const Access* other, const char* other_what, const char* note = nullptr) {
    const uintptr_t here = places[access.where].address, there = other ? places[other->where].address : 0;
    const auto [first, second] = here < there ? std::pair(here, there) : std::pair(there, here);
    static size_t counts[2];
    const bool is_fence = strcmp(kind, "fence") == 0;  // a thread relies on a compare-and-swap alone, as many programs do
    const auto soft = [](const Access& one, const Access& two) {
        return is_soft(one.kind) || (is_scoped(one.kind) && includes(one, two));
    };
    const bool is_others_fence = note && strcmp(note, "another's fence") == 0;
    const bool is_warning = is_fence || is_others_fence || (other && soft(access, *other) && soft(*other, access));
    if (counts[is_warning] >= most_findings || !already_reported.emplace(kind, first, second).second) return;
    counts[is_warning]++;
    check::Json json;
    if (is_warning) json.number("warning", 1);
    if (other && other->launch != access.launch) json.number("across_launches", 1);
    if (note) json.text("note", note);
    json.text("kind", kind).text("space", check::space_name(region.space)).text("name", region.name);
    json.number("offset", static_cast<long long>(address - region.begin));
    json.number("bytes", static_cast<long long>(bytes));
    json.number("address", static_cast<long long>(address));
    json.object("here", described(access, what));
    if (other) json.object("there", described(*other, other_what));
    check::write_line(json);
}

inline const char* word_of(Kind kind, bool is_write) {
    if (kind == pending_copy) return "asynchronous copy";
    if (kind == asynchronous) return is_write ? "asynchronous write" : "asynchronous read";
    if (kind == map_read) return "read of a tensor map";
    if (kind == mbarrier_use) return is_write ? "initialisation of an mbarrier" : "use of an mbarrier";
    if (kind == volatile_access) return is_write ? "volatile write" : "volatile read";
    if (kind == atomic) return is_write ? "atomic update" : "atomic read";
    if (kind == block_atomic) return is_write ? "block-scope atomic update" : "block-scope atomic read";
    if (kind == cluster_atomic) return is_write ? "cluster-scope atomic update" : "cluster-scope atomic read";
    return is_write ? "write" : "read";
}

// ---- accesses

class Check {
  public:
    /// reads : whether the access needs the old value. An atomic update both reads and writes.
    Check(const Region& region, const Access& access, bool is_write, bool reads)
        : region_(region), access_(access), is_write_(is_write), reads_(reads) {}

    void operator()(Cell& cell, uintptr_t address, unsigned bytes) {
        const Thread& thread = *current_thread;
        if (cell.write.kind == pending_copy) {
            report_access("copy", address, bytes, &cell.write, true);
            cell.write.kind = asynchronous;
        } else if (cell.write.kind == none && cell.update.kind == none) {
            if (reads_ && region_.starts_blank) note_blank(address, bytes);
        }
        if (cell.write.kind == mbarrier_use && access_.kind != mbarrier_use) {
            report_access("mbarrier", address, bytes, &cell.write, true);
        }
        for (const Access* earlier : {&cell.write, &cell.update}) {
            if (!conflicts(*earlier)) continue;
            if (!is_before(*earlier, thread)) report_race(address, bytes, *earlier, true);
            else if (needs_proxy_fence(*earlier)) report_access("proxy", address, bytes, earlier, true);
            else if (needs_fence_of_writer(*earlier)) report_access("proxy", address, bytes, earlier, true, "another's fence");
        }
        is_write_ ? write(cell, address, bytes) : read(cell);
    }

    /// Called at the end of a range. Reports a read of uninitialised memory if four consecutive bytes were never
    /// written, or all bytes of a shorter range. A smaller gap is padding.
    void finish(size_t bytes) {
        const size_t enough = bytes < 4 ? bytes : 4;
        if (longest_blank_ >= enough) report_access("uninitialized", blank_address_, longest_blank_, nullptr, false);
    }

  private:
    bool conflicts(const Access& other) const {
        if (other.launch == 0) return false;  // by host code, or there was none
        if (other.kind == none || !is_atomic(other.kind) || !is_atomic(access_.kind)) return other.kind != none;
        return !includes(other, access_) || !includes(access_, other);
    }

    /// Whether the write is not visible to the asynchronous operation that reads it, or that reads it as its tensor map.
    bool needs_proxy_fence(const Access& earlier) const {
        if (access_.kind == map_read) {
            const SharedFences& fences = state_of(*current_thread).map_fences;
            return earlier.launch == launches && !fences.have_ordered(earlier.block, earlier.thread, earlier.clock);
        }
        if (access_.kind != asynchronous || !reads_ || earlier.kind == asynchronous) return false;
        return !is_seen_by_async(earlier, *current_thread, region_.space);
    }

    /// Whether the write is visible, but only because of another thread's fence.
    bool needs_fence_of_writer(const Access& earlier) const {
        if (access_.kind != asynchronous || !reads_ || earlier.kind == asynchronous) return false;
        return !is_fenced_by_writer(earlier, *current_thread, region_.space);
    }

    void report_access(const char* kind, uintptr_t address, size_t bytes, const Access* other, bool other_writes,
                       const char* note = nullptr) {
        report(kind, region_, address, bytes, access_, word_of(access_.kind, is_write_), other,
               other ? word_of(other->kind, other_writes) : "", note);
    }

    void report_race(uintptr_t address, size_t bytes, const Access& other, bool other_writes) {
        const bool of_volatile = access_.kind == volatile_access || other.kind == volatile_access;
        const bool lacks_fence = is_before_but_for_fence(other, *current_thread);
        const bool has_waited = lacks_fence && state_of(*current_thread).has_waited_relaxed;
        report_access(lacks_fence && !has_waited ? "fence" : of_volatile ? "volatile" : "race", address, bytes, &other,
                      other_writes, has_waited ? "relaxed wait" : nullptr);
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
            // a new read does not replace an earlier one that can conflict with more accesses
            const bool says_less = weight_of(access_.kind) < weight_of(earlier.kind);
            const bool is_same = earlier.block == access_.block && earlier.thread == access_.thread;
            if (earlier.kind == none || (!says_less && (is_same || is_before(earlier, *current_thread)))) {
                slot = &earlier;
                break;
            }
        }
        static unsigned turn = 0;
        (slot ? *slot : cell.reads[turn++ % Cell::readers]) = access_;
    }

    /// Ranks a read by how serious its conflicts are. An atomic read does not conflict with atomics of threads in its
    /// scope. A conflict of a volatile read is less serious than one of a plain read.
    static int weight_of(Kind kind) {
        return kind == atomic ? 0 : is_scoped(kind) || kind == volatile_access ? 1 : 2;
    }

    void write(Cell& cell, uintptr_t address, unsigned bytes) {
        for (const Access& earlier : cell.reads) {
            const bool is_ordered = !conflicts(earlier) || is_before(earlier, *current_thread);
            if (!is_ordered) report_race(address, bytes, earlier, false);
        }
        if (is_soft(access_.kind) || is_scoped(access_.kind)) {
            cell.update = access_;  // the last plain write stays recorded, because other accesses may conflict with it
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

/// Returns whether memory is the shared memory of another block of the cluster that has exited, or has not begun.
inline bool is_of_absent_block(const void* address) {
    if (current_block->cluster->count == 1) return false;
    const Block& owner = owner_of(address);
    return &owner != current_block && owner.race_state == nullptr;
}

inline void report_absent_block(const Region* region, uintptr_t address, size_t bytes, const Access& access, bool is_write) {
    const Block& owner = owner_of(reinterpret_cast<const void*>(address));
    const auto window = reinterpret_cast<uintptr_t>(owner.dynamic_shared);
    const Region unknown{window, window + window_bytes, check::Space::dynamic_shared, "", false, false};
    report("race", region ? *region : unknown, address, bytes, access, word_of(access.kind, is_write), nullptr, "",
           "absent block");
}

inline void access(const void* pointer, size_t bytes, bool is_write, bool reads, const Access& access) {
    const auto address = reinterpret_cast<uintptr_t>(pointer);
    const Region* region = check::region_of(address);
    const bool is_tensor = region && region->space == check::Space::tensor;
    if (!is_tensor && is_of_absent_block(pointer)) return report_absent_block(region, address, bytes, access, is_write);
    if (region == nullptr || bytes == 0) return;
    if (address + bytes > region->end) bytes = region->end - address;
    if (is_write && region->space == check::Space::variable && check::is_constant(address)) {
        report("constant", *region, address, bytes, access, word_of(access.kind, true), nullptr, "");
    }
    if (is_tensor && !is_over(0) && !state_of(*current_thread).knows_previous_launches) {
        report("race", *region, address, bytes, access, word_of(access.kind, is_write), nullptr, "", "previous launch");
    }
    Check check(*region, access, is_write, reads);
    shadow.for_each(address, bytes, [&](Cell& cell, uintptr_t piece, unsigned size) { check(cell, piece, size); });
    check.finish(bytes);
}

inline void access(const void* pointer, size_t bytes, bool is_write, bool reads, Kind kind, unsigned where) {
    access(pointer, bytes, is_write, reads, access_of(*current_thread, kind, where));
}

/// Returns the place of an operation of the simulator. The address of an `asm` statement leads to its inlined calls as well.
inline unsigned place_of(Site site) {
    const ThreadState& state = state_of(*current_thread);
    const unsigned caller = calling_place(state);
    return places.at(state.statement ? places.at(caller, state.statement) : caller, site);
}

void read(const void* address, size_t bytes, Site site) { access(address, bytes, false, true, plain, place_of(site)); }
void write(const void* address, size_t bytes, Site site) { access(address, bytes, true, false, plain, place_of(site)); }

}  // namespace tkjit::sim::race
