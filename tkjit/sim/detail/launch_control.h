// `clusterlaunchcontrol`: a running block cancels the launch of a later cluster, to do its work itself.
#pragma once

#include "site.h"

#include <stdint.h>

namespace tkjit::sim {

/// The response to a request: whether a cluster will not be launched, and the index of its first block.
struct alignas(16) LaunchCancellation {
    unsigned x, y, z;
    unsigned is_canceled;
};
static_assert(sizeof(LaunchCancellation) == 16);

/// Writes the response to shared memory, and then counts its 16 bytes at an mbarrier. With `for_cluster`, in each block of
/// the cluster. Source: PTX ISA, "clusterlaunchcontrol.try_cancel".
void try_cancel_launch(LaunchCancellation* response, uint64_t* barrier, bool for_cluster, Site site);

}  // namespace tkjit::sim
