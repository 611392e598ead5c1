// Tensor memory: its allocation, and the loads and stores of warps.
#pragma once

#include "../check/race.h"
#include "../detail/block.h"
#include "../detail/cluster.h"
#include "../detail/fault.h"
#include "../detail/site.h"
#include "../detail/tcgen05.h"
#include "../detail/warp.h"
#include "../detail/warp_intrinsics.h"
#include "fault.h"
#include "launch_state.h"
#include "warp.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

namespace tkjit::sim {

inline constexpr unsigned columns_per_unit = 32, tensor_units = tensor_columns / columns_per_unit;

/// A block's tensor memory. It is allocated in units of 32 columns.
struct TensorMemory {
    uint32_t words[tensor_lanes][tensor_columns];
    unsigned short begun[tensor_units];  // the number of columns of the allocation that begins at a unit; 0 if none begins there
    unsigned taken;                      // units, as bits
    bool is_relinquished;
    // the first columns of allocations that the pair's other block has made for both, oldest first; tcgen05.alloc of this
    // block returns them
    unsigned short promised[tensor_units];
    unsigned promises;
    Site site;  // of the latest allocation
};

inline TensorMemory& tensor_memory_of(Block& block, Site site) {
    if (block.tensor_memory == nullptr) block.tensor_memory = static_cast<TensorMemory*>(calloc(1, sizeof(TensorMemory)));
    if (block.tensor_memory == nullptr) fail(site, "out of memory for tensor memory");
    return *block.tensor_memory;
}

/// Returns the other block of the pair: the one whose rank in the cluster differs in the last bit.
inline Block& peer_of(const Block& block, Site site) {
    const Cluster& cluster = *block.cluster;
    if (cluster.count % 2) fail(site, "cta_group::2 needs clusters of an even number of blocks, not of %u", cluster.count);
    const unsigned rank = block.cluster_rank ^ 1;
    if (cluster.ended >> rank & 1) fail(site, "cta_group::2: the other block of the pair, of rank %u, has exited", rank);
    return *cluster.blocks[rank];
}

inline unsigned bits_of(unsigned columns) { return (1u << columns / columns_per_unit) - 1; }

inline constexpr unsigned no_columns = ~0u;

/// Returns the first column of the lowest free range of so many columns, or no_columns.
inline unsigned find_columns(unsigned taken, unsigned columns) {
    const unsigned units = columns / columns_per_unit;
    for (unsigned first = 0; first + units <= tensor_units; first++) {
        if ((taken >> first & bits_of(columns)) == 0) return first * columns_per_unit;
    }
    return no_columns;
}

/// Marks columns as allocated, and fills them with NaN, because their contents are undefined.
inline void take_columns(TensorMemory& memory, unsigned first, unsigned columns, Site site) {
    memory.taken |= bits_of(columns) << first / columns_per_unit;
    memory.begun[first / columns_per_unit] = static_cast<unsigned short>(columns);
    memory.site = site;
    for (auto& lane : memory.words) memset(lane + first, 0xff, columns * sizeof(lane[0]));
}

/// An instruction that all lanes of a warp execute together, with the operands that have to agree, and a lane's registers.
struct WarpInstruction {
    const char* name;
    uint32_t operands[4];
    uint32_t* registers;
};

/// Lets all lanes of the warp arrive, and then runs `act(lanes)` once.
template <class Act>
inline void execute_as_warp(WarpInstruction own, Site site, Act act) {
    require_full_warp(Operation::tensor_memory, site);
    const auto act_once = [&](Lanes<WarpInstruction> lanes) {
        lanes.for_each([&](int, const WarpInstruction& each) {
            if (each.name == own.name && memcmp(each.operands, own.operands, sizeof(own.operands)) == 0) return;
            fail(site, "%s: the lanes of the warp execute it with different operands, or some execute %s", own.name, each.name);
        });
        act(lanes);
    };
    collective(~0u, Operation::tensor_memory, own, act_once, site);
}

inline constexpr char alloc_name[] = "tcgen05.alloc", dealloc_name[] = "tcgen05.dealloc";
inline constexpr char relinquish_name[] = "tcgen05.relinquish_alloc_permit";
inline constexpr char load_name[] = "tcgen05.ld", store_name[] = "tcgen05.st";

/// Allocates columns, in both blocks if the group is a pair, and returns the first, or no_columns if there is no room. If the
/// other block came first, it has already allocated them for both.
inline unsigned take_columns_of(CtaGroup group, unsigned columns, Site site) {
    Block& block = *current_block;
    TensorMemory& memory = tensor_memory_of(block, site);
    if (group == CtaGroup::pair && memory.promises) {
        const unsigned first = memory.promised[0];
        memmove(memory.promised, memory.promised + 1, --memory.promises * sizeof(memory.promised[0]));
        if (memory.begun[first / columns_per_unit] == columns) return first;
        fail(site, "tcgen05.alloc: this block asks for %u columns, and the other one of its pair for %u", columns,
             memory.begun[first / columns_per_unit]);
    }
    TensorMemory* const other = group == CtaGroup::pair ? &tensor_memory_of(peer_of(block, site), site) : nullptr;
    const unsigned first = find_columns(memory.taken | (other ? other->taken : 0), columns);
    if (first == no_columns) return first;
    take_columns(memory, first, columns, site);
    if (other) {
        take_columns(*other, first, columns, site);
        other->promised[other->promises++] = static_cast<unsigned short>(first);
    }
    return first;
}

void allocate_tensor_memory(CtaGroup group, unsigned columns, uint32_t* address, Site site) {
    const auto place = static_cast<uint32_t>(offset_in_window(address));
    execute_as_warp({alloc_name, {static_cast<uint32_t>(group), columns, place}, nullptr}, site, [&](auto) {
        if (columns < columns_per_unit || columns > tensor_columns || (columns & (columns - 1))) {
            fail(site, "tcgen05.alloc of %u columns: the number must be a power of 2 from 32 to 512", columns);
        }
        if (tensor_memory_of(*current_block, site).is_relinquished) {
            fail(site, "tcgen05.alloc after tcgen05.relinquish_alloc_permit");
        }
        unsigned first;
        while ((first = take_columns_of(group, columns, site)) == no_columns) yield_in_spin(site);
        race::begin_tensor_memory(first, columns);
        *address = first;
        race::write(address, sizeof(*address), site);
    });
    __syncwarp(~0u, site);  // so that the write of the address is ordered before the later accesses of every lane
}

void free_tensor_memory(CtaGroup group, uint32_t address, unsigned columns, Site site) {
    execute_as_warp({dealloc_name, {static_cast<uint32_t>(group), columns, address}, nullptr}, site, [&](auto) {
        TensorMemory& memory = tensor_memory_of(*current_block, site);
        const unsigned unit = address / columns_per_unit;
        bool is_promised = false;
        for (unsigned i = 0; i < memory.promises; i++) is_promised |= memory.promised[i] == address;
        const bool is_one = address % columns_per_unit == 0 && unit < tensor_units && memory.begun[unit] == columns;
        if (!is_one || columns == 0 || is_promised) {
            fail(site, "tcgen05.dealloc of %u columns at 0x%08x, which were not allocated together", columns, address);
        }
        race::note_dealloc(address, columns, site);
        memory.taken &= ~(bits_of(columns) << unit);
        memory.begun[unit] = 0;
    });
}

void relinquish_tensor_memory(Site site) {
    execute_as_warp({relinquish_name, {}, nullptr}, site,
                    [&](auto) { tensor_memory_of(*current_block, site).is_relinquished = true; });
}

/// Called when a block ends. On a device, the next blocks on the multiprocessor could not use columns that are still
/// allocated.
void check_tensor_memory_is_free(Block& block) {
    TensorMemory& memory = *block.tensor_memory;
    const bool is_leak = memory.taken && !block.abandoned;
    if (is_leak && claim_fault(*block.launch)) {
        ErrorText(block.launch->error_text)
            .append("tcgen05.alloc: the block ends without having freed its tensor memory by tcgen05.dealloc, "
                    "in block (%u, %u, %u) (%s:%d)",
                    blockIdx.x, blockIdx.y, blockIdx.z, memory.site.file, memory.site.line);
    }
    clear_tensor_memory(block);
}

void clear_tensor_memory(Block& block) {
    TensorMemory& memory = *block.tensor_memory;
    memory.taken = memory.promises = 0;
    memory.is_relinquished = false;
    memset(memory.begun, 0, sizeof(memory.begun));
}

/// Returns the words from a column on, in a lane. Fails unless all of them are allocated.
inline uint32_t* tensor_words(const Block& block, unsigned lane, unsigned column, unsigned columns, const char* what, Site site) {
    TensorMemory* const memory = block.tensor_memory;
    if (lane >= tensor_lanes || column + columns > tensor_columns) {
        fail(site, "%s: lane %u, columns %u to %u are outside of tensor memory, which has 128 lanes of 512 columns", what, lane,
             column, column + columns - 1);
    }
    const unsigned first = column / columns_per_unit, last = (column + columns - 1) / columns_per_unit;
    const unsigned wanted = ((2u << (last - first)) - 1) << first;
    if (memory == nullptr || (memory->taken & wanted) != wanted) {
        fail(site, "%s: columns %u to %u of tensor memory are not all allocated", what, column, column + columns - 1);
    }
    return memory->words[lane] + column;
}

inline unsigned lane_in(uint32_t address) { return address >> 16; }
inline unsigned column_in(uint32_t address) { return address & 0xffff; }

// ---- loads and stores

inline unsigned first_lane_of_warp() { return current_thread->linear / warp_threads % 4 * 32; }

/// Returns the lane at which a warp's access begins. An address among the first 32 lanes means the warp's own lanes, as on a
/// device: DeepGEMM's warps all pass lane 0.
inline unsigned first_lane_of(uint32_t address) {
    return lane_in(address) < 32 ? first_lane_of_warp() + lane_in(address) : lane_in(address);
}

/// A register's place, relative to the address.
struct TensorPlace {
    unsigned lane, column;
};

/// Source: PTX ISA, the figures of "Matrix fragments" for `tcgen05.ld`.
inline TensorPlace place_in(TensorShape shape, unsigned lane, unsigned i) {
    switch (shape) {
        case TensorShape::l32x32b: return {lane, i};
        case TensorShape::l16x64b: return {lane / 4 + lane % 2 * 8, 2 * i + lane / 2 % 2};
        case TensorShape::l16x128b: return {lane / 4 + i % 2 * 8, i / 2 * 4 + lane % 4};
        case TensorShape::l16x256b: return {lane / 4 + i / 2 % 2 * 8, i / 4 * 8 + lane % 4 * 2 + i % 2};
        case TensorShape::l16x32bx2: return {lane % 16, i};
    }
    __builtin_unreachable();
}

/// Calls `visit(word, i, half)` for each 32-bit column that a lane of the warp accesses: it belongs to register i, or to
/// one half of it if two columns share the register.
template <class Visit>
inline void for_each_word(const TensorAccess& access, unsigned warp_lane, Visit visit) {
    const unsigned base = first_lane_of(access.address), per_register = access.packs ? 2 : 1;
    auto& words = current_block->tensor_memory->words;
    for (unsigned i = 0; i < access.registers; i++) {
        const TensorPlace place = place_in(access.shape, warp_lane, i);
        const unsigned split = access.shape == TensorShape::l16x32bx2 && warp_lane >= 16 ? access.split : 0;
        for (unsigned half = 0; half < per_register; half++) {
            const unsigned column = column_in(access.address) + split + place.column * per_register + half;
            visit(words[base + place.lane][column], i, half);
        }
    }
}

/// Checks an access of the running thread's warp. A warp reaches only the 32 lanes that belong to its number in the
/// warpgroup.
inline void check_access(const TensorAccess& access, bool is_store, Site site) {
    const char* const what = is_store ? store_name : load_name;
    const TensorShape shape = access.shape;
    const unsigned lane = first_lane_of(access.address), column = column_in(access.address);
    const unsigned first = first_lane_of_warp();
    if (lane != first && (lane != first + 16 || shape == TensorShape::l32x32b)) {
        fail(site, "%s: this warp may access lanes %u to %u of tensor memory, but the address begins at lane %u", what, first,
             first + 31, lane_in(access.address));
    }
    const bool has_halves = shape == TensorShape::l16x32bx2;
    const unsigned columns_per_register = (shape == TensorShape::l32x32b || has_halves ? 1 : 2) * (access.packs ? 2 : 1);
    const auto check = [&](unsigned from) {
        tensor_words(*current_block, lane, from, access.registers * columns_per_register, what, site);
        race::access_tensor_memory(lane, shape == TensorShape::l32x32b ? 32 : 16, from, access.registers * columns_per_register,
                                   is_store, site);
    };
    check(column);
    if (has_halves) check(column + access.split);
}

/// Lets the warp's lanes arrive with their registers, and then calls `act(lane, registers)` for each of them.
template <class Act>
inline void access_as_warp(const TensorAccess& access, uint32_t* registers, bool is_store, Site site, Act act) {
    const uint32_t form = static_cast<uint32_t>(access.shape) << 1 | access.packs;
    const char* const name = is_store ? store_name : load_name;
    const WarpInstruction own{name, {access.address, access.split, access.registers, form}, registers};
    execute_as_warp(own, site, [&](Lanes<WarpInstruction> lanes) {
        check_access(access, is_store, site);
        lanes.for_each([&](int lane, const WarpInstruction& each) { act(static_cast<unsigned>(lane), each.registers); });
    });
}

void load_tensor_memory(const TensorAccess& access, uint32_t* registers, Site site) {
    access_as_warp(access, registers, false, site, [&](unsigned lane, uint32_t* to) {
        if (access.packs) memset(to, 0, access.registers * sizeof(to[0]));
        for_each_word(access, lane, [&](uint32_t word, unsigned i, unsigned half) {
            to[i] = access.packs ? to[i] | (word & 0xffff) << 16 * half : word;
        });
    });
}

void store_tensor_memory(const TensorAccess& access, const uint32_t* registers, Site site) {
    access_as_warp(access, const_cast<uint32_t*>(registers), true, site, [&](unsigned lane, const uint32_t* from) {
        for_each_word(access, lane, [&](uint32_t& word, unsigned i, unsigned half) {
            word = access.packs ? from[i] >> 16 * half & 0xffff : from[i];
        });
    });
}

void wait_for_tensor_loads(Site site) { race::finish_tensor_accesses(false, site); }
void wait_for_tensor_stores(Site site) { race::finish_tensor_accesses(true, site); }
void fence_tensor_memory(bool before_meeting) { race::fence_tensor_memory(before_meeting); }

}  // namespace tkjit::sim
