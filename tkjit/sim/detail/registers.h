// `setmaxnreg`, with which warpgroups pass registers to each other.
#pragma once

#include "site.h"

namespace tkjit::sim {

/// Notes that a thread changes its number of registers. Source: PTX ISA, "setmaxnreg".
void set_register_count(unsigned count, Site site = Site::here());

}  // namespace tkjit::sim
