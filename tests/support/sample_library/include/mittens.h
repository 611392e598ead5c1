// Mittens: a header library for tests, small, and of the shape of those that real kernels are written on. SPDX: MIT.
//
// Macros say what it is compiled for: MITTENS_AMPERE, MITTENS_HOPPER or MITTENS_BLACKWELL. For Hopper and later a global
// layout makes a tensor map of each of its tiles, for which it calls the CUDA driver.
#pragma once

#include <mittens/kernel.h>
#include <mittens/launch.h>
#include <mittens/layout.h>
#include <mittens/parallel.h>
#include <mittens/tile.h>
