// The former name of ATen/cuda/Atomic.cuh, which torch 1.11 dropped.
#pragma once

#include <ATen/cuda/Atomic.cuh>
#include <THC/THC.h>
