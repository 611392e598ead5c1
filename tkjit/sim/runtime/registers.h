// The registers of a block's warps. The simulator has none to move, but it knows when a device would wait for more
// registers than there are.
#pragma once

#include "../detail/block.h"
#include "../detail/fault.h"
#include "../detail/registers.h"
#include "../detail/site.h"
#include "../detail/vector_types.h"
#include "../detail/warp.h"
#include "fault.h"
#include "launch_state.h"

namespace tkjit::sim {

inline constexpr unsigned registers_of_multiprocessor = 64 << 10, most_registers_per_thread = 256;

/// Returns the most registers that each thread can have when a block begins. The assembler gives a kernel a multiple of
/// eight. Source: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
inline unsigned most_registers_at_launch(const Block& block) {
    const unsigned warps = (block.thread_count + warp_threads - 1) / warp_threads;
    const unsigned fair = registers_of_multiprocessor / (warps * warp_threads) / 8 * 8;
    return fair < most_registers_per_thread ? fair : most_registers_per_thread;
}

void set_register_count(unsigned count, Site site) {
    if (count < 24 || count > most_registers_per_thread || count % 8) {
        fail(site, "setmaxnreg of %u: the number must be a multiple of 8 from 24 to 256", count);
    }
    RegisterCounts& registers = current_thread->block->registers;
    const unsigned warp = current_thread->linear / warp_threads;
    registers.counts[warp] = static_cast<unsigned short>(count);
    registers.sites[warp] = site;
    registers.has_changed = true;
#ifdef TKJIT_SIM_CHECKED  // undefined in the PTX ISA, although devices accept it
    require_full_warp(Operation::setmaxnreg, site);
    const auto compare = [&](Lanes<unsigned> lanes) {
        lanes.for_each([&](int, const unsigned& each) {
            if (each != count) fail(site, "setmaxnreg: the lanes of a warp ask for %u and %u registers", count, each);
        });
    };
    collective(~0u, Operation::setmaxnreg, count, compare, site);
#endif
}

/// Fails unless the four warps of each warpgroup end with the same number, because all of them must execute setmaxnreg.
inline bool check_warpgroups(Block& block, unsigned warps) {
    const RegisterCounts& registers = block.registers;
    for (unsigned warp = 0; warp < warps; warp++) {
        const unsigned first = warp / 4 * 4;
        if (registers.counts[warp] == registers.counts[first]) continue;
        const Site site = registers.sites[registers.counts[warp] ? warp : first];
        if (claim_fault(*block.launch)) {
            ErrorText(block.launch->error_text)
                .append("setmaxnreg: all warps of a warpgroup must execute it, but warps %u and %u end with different numbers of "
                        "registers, in block (%u, %u, %u) (%s:%d)",
                        first, warp, blockIdx.x, blockIdx.y, blockIdx.z, site.file, site.line);
        }
        return false;
    }
    return true;
}

/// Called when a block ends. If its warps ask for more registers than the block has, the last increase never returns on
/// a device. Warps that never call setmaxnreg keep their registers.
void check_registers(Block& block) {
    const unsigned warps = (block.thread_count + warp_threads - 1) / warp_threads;
    if (!check_warpgroups(block, warps)) return;
    const RegisterCounts& registers = block.registers;
    const unsigned at_launch = most_registers_at_launch(block);
    unsigned wanted = 0, available = 0, greatest = 0;
    for (unsigned warp = 0; warp < warps; warp++) {
        if (registers.counts[warp] == 0) continue;
        wanted += registers.counts[warp] * warp_threads;
        available += at_launch * warp_threads;
        if (registers.counts[warp] >= registers.counts[greatest]) greatest = warp;
    }
    if (wanted <= available || !claim_fault(*block.launch)) return;
    const Site site = registers.sites[greatest];
    ErrorText(block.launch->error_text)
        .append("setmaxnreg: the warps ask for %u registers, but begin with at most %u, because a block of %u threads has "
                "at most %u per thread, so an increase waits forever, in block (%u, %u, %u) (%s:%d)",
                wanted, available, block.thread_count, at_launch, blockIdx.x, blockIdx.y, blockIdx.z, site.file, site.line);
}

}  // namespace tkjit::sim
