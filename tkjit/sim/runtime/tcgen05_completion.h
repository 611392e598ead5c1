// Copies to tensor memory, and the arrival at an mbarrier once a thread's copies and products are done.
#pragma once

#include "../check/race.h"
#include "../detail/block.h"
#include "../detail/cluster.h"
#include "../detail/fault.h"
#include "../detail/site.h"
#include "../detail/tcgen05.h"
#include "fault.h"
#include "matrix_operands.h"
#include "mbarrier.h"
#include "scheduler.h"
#include "tensor_instruction.h"
#include "tensor_memory.h"

#include <stdint.h>
#include <string.h>

namespace tkjit::sim {

// ---- copies

/// Source: PTX ISA, "tcgen05.cp". A row of the matrix goes to each of the lanes that the shape names.
void copy_to_tensor_memory(CtaGroup group, TensorCopyShape shape, uint32_t address, uint64_t descriptor, Site site) {
    constexpr unsigned rows_by_shape[] = {128, 4, 128, 64, 64, 32};
    const unsigned rows = rows_by_shape[static_cast<unsigned>(shape)];
    const unsigned units = shape == TensorCopyShape::c128x256b || shape == TensorCopyShape::c4x256b ? 2 : 1;
    const auto lane_of = [&](unsigned row, unsigned copy) {
        switch (shape) {
            case TensorCopyShape::c4x256b: return 32 * row;  // the figure's rows are the first lanes of the quarters
            case TensorCopyShape::c64x128b_02_13: return row + 64 * copy;
            case TensorCopyShape::c64x128b_01_23: return row / 32 * 64 + row % 32 + 32 * copy;
            case TensorCopyShape::c32x128b_x4: return row + 32 * copy;
            default: return row;
        }
    };
    const unsigned copies = shape == TensorCopyShape::c32x128b_x4 ? 4 : rows == 64 ? 2 : 1;
    check_descriptor(descriptor, "tcgen05.cp", site);
    const race::Moment issued = race::begin_tensor_operation(site);
    Block& own = *current_block;
    const unsigned blocks = static_cast<unsigned>(group);
    for (unsigned i = 0; i < blocks; i++) {
        Block& block = i == 0 ? own : peer_of(own, site);
        const SharedMatrix from(block, descriptor, false, issued, site);
        for (unsigned row = 0; row < rows; row++) {
            char bytes[32];
            for (unsigned unit = 0; unit < units; unit++) memcpy(bytes + 16 * unit, from.along_k(row, unit), 16);
            for (unsigned copy = 0; copy < copies; copy++) {
                const unsigned lane = lane_in(address) + lane_of(row, copy);
                memcpy(tensor_words(block, lane, column_in(address), 4 * units, "tcgen05.cp", site), bytes, 16 * units);
            }
        }
        const unsigned step = shape == TensorCopyShape::c4x256b ? 32 : 16;
        for (unsigned lane = lane_in(address); lane < tensor_lanes; lane += step) {
            race::use_tensor_memory(block, lane, 16, column_in(address), 4 * units, true, issued, false);
        }
    }
    count_event(own);
    give_way();
}

// ---- completion

inline void arrive_when_done(uint64_t* barrier, const race::Moment& last, Site site) {
    race::note_mbarrier_use(barrier, site);
    MbarrierBits bits = checked_bits(barrier, "tcgen05.commit", site);
    if (bits.pending == 0) fail(site, "tcgen05.commit: the mbarrier expects no arrival in this phase");
    race::release_tensor_operations(barrier);
    race::arrive_for(barrier, last);
    bits.pending--;
    race::note_mbarrier_arrival(barrier, bits.pending, bits.count, site);
    end_phase_if_complete(barrier, bits, site);
}

void commit_tensor_operations(uint64_t* barrier, Site site) {
    arrive_when_done(barrier, race::last_tensor_operation(site), site);
    give_way();
}

void commit_tensor_operations_to(uint64_t* barrier, unsigned ranks, Site site) {
    const race::Moment last = race::last_tensor_operation(site);
    for (unsigned rest = ranks; rest; rest &= rest - 1) {
        const auto rank = static_cast<unsigned>(__builtin_ctz(rest));
        arrive_when_done(reinterpret_cast<uint64_t*>(in_other_block(barrier, rank, site)), last, site);
    }
    give_way();
}

}  // namespace tkjit::sim
