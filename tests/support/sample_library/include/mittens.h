// Mittens: a small header library for tests, in the style of the libraries that real kernels use. SPDX: MIT.
//
// MITTENS_AMPERE, MITTENS_HOPPER or MITTENS_BLACKWELL selects the architecture. For Hopper and later, a global layout
// makes a tensor map for each of its tiles, for which it calls the CUDA driver.
#pragma once

#include <mittens/kernel.h>
#include <mittens/launch.h>
#include <mittens/layout.h>
#include <mittens/parallel.h>
#include <mittens/tile.h>
