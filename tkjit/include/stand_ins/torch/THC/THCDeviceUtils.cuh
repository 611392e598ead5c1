// The former name of ATen/cuda/DeviceUtils.cuh and ATen/ceil_div.h, which torch 1.11 dropped.
#pragma once

#include <ATen/ceil_div.h>
#include <ATen/cuda/DeviceUtils.cuh>
#include <THC/THC.h>
