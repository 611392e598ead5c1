// `setmaxnreg`, with which warpgroups pass registers to each other.
#pragma once

#include "site.h"

namespace tkjit::sim {

/// Sets the number of registers that each lane of the running warp has, once all of its lanes have called this. Source:
/// PTX ISA, "setmaxnreg".
void set_register_count(unsigned count, Site site = Site::here());

}  // namespace tkjit::sim
