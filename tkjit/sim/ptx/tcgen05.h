// PTX ISA, "TensorCore 5th Generation Family Instructions", and "clusterlaunchcontrol".
#pragma once

#include "../detail/launch_control.h"
#include "../detail/pending_registers.h"
#include "../detail/tcgen05.h"
#include "operands.h"

namespace tkjit::sim::ptx {

inline void tcgen05_alloc(CtaGroup group, char* to, unsigned columns, Site site = Site::here()) {
    allocate_tensor_memory(group, columns, aligned<uint32_t>(to, site), site);
}
inline void tcgen05_dealloc(CtaGroup group, uint32_t address, unsigned columns, Site site = Site::here()) {
    free_tensor_memory(group, address, columns, site);
}
inline void tcgen05_relinquish_alloc_permit(Site site = Site::here()) { relinquish_tensor_memory(site); }

template <TensorShape shape, bool packs, unsigned count>
inline void tcgen05_ld(uint32_t (&registers)[count], uint32_t address, unsigned split = 0, Site site = Site::here()) {
    load_tensor_memory({shape, count, packs, address, split}, registers, site);
}
template <TensorShape shape, bool packs, unsigned count>
inline void tcgen05_st(const uint32_t (&registers)[count], uint32_t address, unsigned split = 0, Site site = Site::here()) {
    store_tensor_memory({shape, count, packs, address, split}, registers, site);
}

/// Records the registers of an `asm` statement's `tcgen05.ld`, if they are the kernel's variables.
template <class... Registers>
inline void note_loaded(const Registers&... registers) {
    (note_registers(&registers, sizeof(registers), RegisterUse::loaded), ...);
}

inline void tcgen05_cp(CtaGroup group, TensorCopyShape shape, uint32_t address, uint64_t descriptor, Site site = Site::here()) {
    copy_to_tensor_memory(group, shape, address, descriptor, site);
}

inline void tcgen05_mma(const TensorProduct& product, Site site = Site::here()) { multiply_in_tensor_memory(product, site); }

inline void tcgen05_commit(char* barrier, Site site = Site::here()) {
    commit_tensor_operations(aligned<uint64_t>(barrier, site), site);
}
inline void tcgen05_commit_to(char* barrier, unsigned ranks, Site site = Site::here()) {
    commit_tensor_operations_to(aligned<uint64_t>(barrier, site), ranks, site);
}

inline void try_cancel(char* response, char* barrier, bool for_cluster, Site site = Site::here()) {
    try_cancel_launch(aligned<LaunchCancellation>(response, site), aligned<uint64_t>(barrier, site), for_cluster, site);
}
inline bool is_canceled(unsigned __int128 response) { return __builtin_bit_cast(LaunchCancellation, response).is_canceled; }
inline unsigned first_block_of(unsigned __int128 response, unsigned axis) {
    const LaunchCancellation found = __builtin_bit_cast(LaunchCancellation, response);
    return axis == 0 ? found.x : axis == 1 ? found.y : axis == 2 ? found.z : 0;
}

}  // namespace tkjit::sim::ptx
