// Asynchronous copies (`cp.async`). A thread's copies land only when it waits for their group, so a kernel that forgets
// to wait reads the old contents of shared memory.
#pragma once

#include "block.h"
#include "site.h"

namespace tkjit::sim {

/// Copies `source_bytes` and fills the rest of `bytes` with zeros, when the thread waits for it.
void issue_copy(void* destination, const void* source, unsigned bytes, unsigned source_bytes, Site site);

/// Makes a group of the copies since the last commit.
void commit_copies();

/// Lands all but the last `pending_groups` committed groups of the running thread.
void wait_for_copies(unsigned pending_groups);

/// Lands every copy of a thread, committed or not.
void land_all_copies(CopyQueue& queue);

}  // namespace tkjit::sim
