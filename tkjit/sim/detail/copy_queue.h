// Asynchronous copies (`cp.async`). A thread's copies land only when it waits for their group, so a kernel that forgets
// to wait reads the old contents of shared memory.
#pragma once

#include "block.h"
#include "site.h"

namespace tkjit::sim {

/// Copies `source_bytes` bytes, and fills the rest of the `bytes` bytes with zeros, once the thread waits for the copy.
void issue_copy(void* destination, const void* source, unsigned bytes, unsigned source_bytes, Site site);

/// Puts the copies since the last commit into a group.
void commit_copies();

/// Lands all of the running thread's committed groups except the last `pending_groups`.
void wait_for_copies(unsigned pending_groups);

/// Lands all of a thread's copies, committed or not.
void land_all_copies(CopyQueue& queue);

}  // namespace tkjit::sim
