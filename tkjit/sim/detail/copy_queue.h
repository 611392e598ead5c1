// Asynchronous copies (`cp.async`). A thread's copies land only when it waits for their group, so a kernel that forgets
// to wait reads the old contents of shared memory.
#pragma once

#include "block.h"
#include "site.h"

#include <stdint.h>

namespace tkjit::sim {

/// Copies `source_bytes` bytes, and fills the rest of the `bytes` bytes with zeros, once the thread waits for the copy.
void issue_copy(void* destination, const void* source, unsigned bytes, unsigned source_bytes, Site site);

/// Puts the copies since the last commit into a group.
void commit_copies();

/// Lands all of the running thread's committed groups except the last `pending_groups`.
void wait_for_copies(unsigned pending_groups);

/// Lands all of the running thread's copies, committed or not.
void wait_for_all_copies();
void land_all_copies(CopyQueue& queue);

/// Lets the phase of an mbarrier wait for the running thread's copies, and counts an arrival if the mbarrier's count includes
/// it. Source: PTX ISA, "cp.async.mbarrier.arrive".
void arrive_after_copies(uint64_t* barrier, bool is_counted_already, Site site);

}  // namespace tkjit::sim
