// Asynchronous copies (`cp.async`): a thread's copies land when it waits for their group, and not before, so that a
// kernel that forgot to wait reads what was in shared memory until then.
#pragma once

#include "block.h"
#include "site.h"

namespace tkjit::sim {

/// Copies `source_bytes` and fills the rest of `bytes` with zeros, when the thread waits for it.
void issue_copy(void* destination, const void* source, unsigned bytes, unsigned source_bytes, Site site);

/// Makes the copies since the last commit a group.
void commit_copies();

/// Lands all but the last `pending_groups` committed groups of the running thread.
void wait_for_copies(unsigned pending_groups);

/// Lands every copy of a thread, in a committed group or not.
void land_all_copies(CopyQueue& queue);

}  // namespace tkjit::sim
