// The types of pointers to the driver's functions, of those that the simulator has.
#pragma once

#include "cuda.h"

using PFN_cuTensorMapEncodeTiled = decltype(&cuTensorMapEncodeTiled);
using PFN_cuTensorMapEncodeTiled_v12000 = PFN_cuTensorMapEncodeTiled;
using PFN_cuTensorMapEncodeIm2col = decltype(&cuTensorMapEncodeIm2col);
using PFN_cuTensorMapEncodeIm2col_v12000 = PFN_cuTensorMapEncodeIm2col;
using PFN_cuTensorMapReplaceAddress = decltype(&cuTensorMapReplaceAddress);
using PFN_cuTensorMapReplaceAddress_v12000 = PFN_cuTensorMapReplaceAddress;
using PFN_cuGetErrorString = decltype(&cuGetErrorString);
using PFN_cuGetErrorString_v6000 = PFN_cuGetErrorString;
using PFN_cuGetErrorName = decltype(&cuGetErrorName);
using PFN_cuGetErrorName_v6000 = PFN_cuGetErrorName;
