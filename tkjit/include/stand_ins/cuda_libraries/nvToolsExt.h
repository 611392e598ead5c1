// NVTX under its older name, which toolkits no longer have.
#pragma once

#include <nvtx3/nvToolsExt.h>
