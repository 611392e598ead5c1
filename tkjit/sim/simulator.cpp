// The part of the simulator that is compiled once and linked with every launcher: who runs when, barriers, copies,
// launches. One file, so that the compiler sees all of it at once.
//
// Built three times: as it is; with TKJIT_SIM_MEMORY, for kernels under AddressSanitizer; with TKJIT_SIM_RACE, for those
// whose every access is reported to check/race.h. Never itself instrumented.
#include "cuda_runtime.h"

#include <pthread.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include <exception>

#ifdef TKJIT_SIM_CHECKED
#include <algorithm>
#endif

TKJIT_SIM_REGISTER uint3 threadIdx{0, 0, 0};
TKJIT_SIM_REGISTER uint3 blockIdx{0, 0, 0};
TKJIT_SIM_REGISTER dim3 blockDim{1, 1, 1};
TKJIT_SIM_REGISTER dim3 gridDim{1, 1, 1};

namespace tkjit::sim {
TKJIT_SIM_REGISTER Thread* current_thread = nullptr;
TKJIT_SIM_REGISTER Block* current_block = nullptr;
}  // namespace tkjit::sim

#include "runtime/pool.h"
#include "runtime/fiber.h"
#include "runtime/fault.h"
#include "runtime/trace.h"
#include "runtime/schedule.h"
#include "check/race.h"
#include "check/copies.h"
#ifdef TKJIT_SIM_CHECKED
#include "check/findings.h"
#include "check/regions.h"
#endif
#ifdef TKJIT_SIM_RACE
#include "check/race_detector.h"
#include "check/instrumentation.h"
#endif
#include "runtime/scheduler.h"
#include "runtime/fiber_main.h"
#include "runtime/barrier.h"
#include "runtime/warp.h"
#include "runtime/bulk_copies.h"
#include "runtime/copy_queue.h"
#include "runtime/blocks.h"
#include "runtime/grid.h"
#include "runtime/launch.h"
#include "runtime/directed_rounding.h"
#include "runtime/math_functions.h"
#ifdef TKJIT_SIM_MEMORY
#include "check/memory.h"
#endif
#ifdef TKJIT_SIM_CHECKED
#include "check/host.h"
#endif
