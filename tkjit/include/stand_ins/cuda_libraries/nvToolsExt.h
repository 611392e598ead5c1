// NVTX under its old name, which newer toolkits lack.
#pragma once

#include <nvtx3/nvToolsExt.h>
