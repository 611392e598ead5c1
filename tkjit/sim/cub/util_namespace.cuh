// A part of CUB's configuration; the simulator has all of it in one header.
#pragma once

#include "config.cuh"
