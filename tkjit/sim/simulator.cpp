// The part of the simulator that is compiled once and linked with every launcher: scheduling, barriers, copies,
// launches. It is one file, so that the compiler sees all of it at once.
//
// It is built four times: without a macro; with TKJIT_SIM_MEMORY, for kernels under AddressSanitizer; with TKJIT_SIM_RACE,
// for kernels whose every access is passed to the race detector; and with TKJIT_SIM_OVERFLOW, for the last block of a
// launch with huge tensors. It is never instrumented itself.
#include "cuda_runtime.h"

#include "runtime/barrier.h"
#include "runtime/copy_queue.h"
#include "runtime/directed_rounding.h"
#include "runtime/fiber_main.h"
#include "runtime/host_calls.h"
#include "runtime/launch.h"
#include "runtime/math_functions.h"
#include "runtime/multicast.h"
#include "runtime/numerics.h"
#include "runtime/tensor_copies.h"
#include "runtime/tensor_map.h"
#include "runtime/warp.h"
#include "runtime/registers.h"
#include "runtime/launch_control.h"
#include "runtime/tcgen05.h"
#include "runtime/tcgen05_completion.h"
#include "runtime/tensor_memory.h"
#include "runtime/wgmma.h"
#ifdef TKJIT_SIM_CHECKED
#include "check/host.h"
#endif

TKJIT_SIM_REGISTER uint3 threadIdx{0, 0, 0};
TKJIT_SIM_REGISTER uint3 blockIdx{0, 0, 0};
TKJIT_SIM_REGISTER dim3 blockDim{1, 1, 1};
TKJIT_SIM_REGISTER dim3 gridDim{1, 1, 1};

namespace tkjit::sim {
TKJIT_SIM_REGISTER CurrentThread current_thread{};
TKJIT_SIM_REGISTER Block* current_block = nullptr;
}  // namespace tkjit::sim
