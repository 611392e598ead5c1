// Launches: runs the blocks of a grid on several OS threads.
#pragma once

#include "block.h"
#include "language.h"
#include "vector_types.h"

#include <stddef.h>

namespace tkjit::sim {

inline constexpr unsigned max_dynamic_shared_bytes = 227 << 10;

/// Fixes the number of OS threads that this shared object's launches use; 0 means one for each available CPU.
void set_workers(int workers);

/// Returns the cudaError_t of this OS thread's last launch, or 0 if it is the usual one (see host_launch.h).
extern TKJIT_SIM_REGISTER int launch_error_code;

/// How a grid's blocks depend on each other: all of them, or those of a cluster, run at the same time.
struct LaunchMode {
    LaunchMode(bool cooperative = false, dim3 cluster = {}, bool is_dependent = false)
        : cooperative(cooperative), cluster(cluster), is_dependent(is_dependent) {}

    bool cooperative;
    dim3 cluster;
    bool is_dependent;  // may begin before the launches before it have ended
};

/// A kernel that is declared with __cluster_dims__.
struct DeclaredCluster {
    template <class... Parameters>
    DeclaredCluster(void (*kernel)(Parameters...), dim3 dims)
        : kernel(reinterpret_cast<const void*>(kernel)), dims(dims), next(first) {
        first = this;
    }

    const void* kernel;
    dim3 dims;
    const DeclaredCluster* next;
    static inline const DeclaredCluster* first = nullptr;
};

/// The declaration of a template's instance, which refers to it in its body.
template <auto kernel, unsigned x, unsigned y = 1, unsigned z = 1>
struct ClusterOf {
    static const DeclaredCluster declared;
};
template <auto kernel, unsigned x, unsigned y, unsigned z>
const DeclaredCluster ClusterOf<kernel, x, y, z>::declared(kernel, dim3(x, y, z));

/// Returns a mode with the cluster that a kernel's declaration asks for, if it does.
inline LaunchMode with_declared_cluster(LaunchMode mode, const void* kernel) {
    for (const DeclaredCluster* each = DeclaredCluster::first; each; each = each->next) {
        if (each->kernel == kernel) mode.cluster = each->dims;
    }
    return mode;
}

/// Ends the running CUDA thread and begins the next one on the same stack. Returns false, without beginning it, if all
/// have begun or if another thread is ready to continue.
bool next_thread();

/// Calls a body in CUDA threads, one after the other. It is a template, so that the compiler can inline the kernel into
/// the loop and keep its arguments in registers. The race detector does not see this call, which is made once for several
/// threads.
template <class Body>
__attribute__((no_sanitize("thread"))) void run_threads(const void* body) {
    const Body own = *static_cast<const Body*>(body);
    do {
        do own();
        while (current_thread.next_in_row());
    } while (next_thread());
}

/// Runs a grid, whose threads begin in calls of `run(body)`. Returns null, or the text of the first fault.
const char* launch_body(void (*run)(const void* body), const void* body, dim3 grid, dim3 block,
                        size_t dynamic_shared_bytes, LaunchMode mode);

/// Waits in a dependent launch until the launches before it have ended. In the simulator they have ended already, but the
/// race detector reports accesses that come before this call.
#ifdef TKJIT_SIM_RACE
void wait_for_previous_launches();
#else
inline void wait_for_previous_launches() {}
#endif

/// Runs `kernel(values...)` on a grid. In a cooperative launch, all blocks run at the same time and may wait for each
/// other.
template <class... Parameters>
const char* launch_with(LaunchMode mode, void (*kernel)(Parameters...), dim3 grid, dim3 block,
                        size_t dynamic_shared_bytes, const Parameters&... values) {
    const auto body = [kernel, values...] { kernel(values...); };
    mode = with_declared_cluster(mode, reinterpret_cast<const void*>(kernel));
    return launch_body(run_threads<decltype(body)>, &body, grid, block, dynamic_shared_bytes, mode);
}

/// Runs `kernel(arguments...)` on a grid, as `kernel<<<grid, block, dynamic_shared_bytes>>>` does on a device.
///
/// Returns when the grid is done: null, or an error text that stays valid until this OS thread's next launch. Several
/// threads may call this concurrently, also after fork(). As on a device, the arguments are converted to the kernel's
/// parameters once, and each CUDA thread has its own copy of them.
template <class... Parameters, class... Arguments>
const char* launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t dynamic_shared_bytes,
                   Arguments&&... arguments) {
    static_assert(sizeof...(Parameters) == sizeof...(Arguments), "the number of arguments does not match the kernel's");
    return launch_with(false, kernel, grid, block, dynamic_shared_bytes,
                              static_cast<Parameters>(static_cast<Arguments&&>(arguments))...);
}

/// Like launch, but for a cooperative launch.
template <class... Parameters, class... Arguments>
const char* launch_cooperatively(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t dynamic_shared_bytes,
                                 Arguments&&... arguments) {
    static_assert(sizeof...(Parameters) == sizeof...(Arguments), "the number of arguments does not match the kernel's");
    return launch_with(true, kernel, grid, block, dynamic_shared_bytes,
                       static_cast<Parameters>(static_cast<Arguments&&>(arguments))...);
}

}  // namespace tkjit::sim

/// PTX ISA, `griddepcontrol`. Source: CUDA C++ Programming Guide, "Programmatic Dependent Launch and Synchronization".
inline void cudaGridDependencySynchronize() { tkjit::sim::wait_for_previous_launches(); }
inline void cudaTriggerProgrammaticLaunchCompletion() {}
