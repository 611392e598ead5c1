// The other parts of the CUDA runtime that host code uses: the single device, streams, events, and functions'
// attributes. A stream does not order anything, because every call has finished when it returns.
#pragma once

#include "block.h"
#include "compiler.h"
#include "host_errors.h"
#include "host_launch.h"
#include "host_memory.h"
#include "integer_intrinsics.h"
#include "language.h"
#include "launch.h"

#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

// ---- the device: its properties are those that a kernel can rely on in the simulator
struct cudaDeviceProp {
    char name[256];
    size_t totalGlobalMem, totalConstMem;
    size_t sharedMemPerBlock, sharedMemPerBlockOptin, sharedMemPerMultiprocessor, reservedSharedMemPerBlock;
    int regsPerBlock, regsPerMultiprocessor;
    int warpSize;
    int maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3];
    int maxThreadsPerMultiProcessor, maxBlocksPerMultiProcessor, multiProcessorCount;
    int major, minor;
    int clockRate, memoryClockRate, memoryBusWidth, l2CacheSize;
    int integrated, canMapHostMemory, unifiedAddressing, managedMemory, concurrentManagedAccess;
    int concurrentKernels, cooperativeLaunch, asyncEngineCount, deviceOverlap, ECCEnabled, computeMode;
    int pciBusID, pciDeviceID, pciDomainID, kernelExecTimeoutEnabled;
    int pageableMemoryAccess, pageableMemoryAccessUsesHostPageTables, directManagedMemAccessFromHost;
    int hostNativeAtomicSupported, canUseHostPointerForRegisteredMem, computePreemptionSupported;
    int streamPrioritiesSupported, globalL1CacheSupported, localL1CacheSupported, memoryPoolsSupported, clusterLaunch;
    int isMultiGpuBoard, multiGpuBoardGroupID, singleToDoublePrecisionPerfRatio, cooperativeMultiDeviceLaunch;
    int persistingL2CacheMaxSize, accessPolicyMaxWindowSize;
    size_t memPitch, textureAlignment, surfaceAlignment;
};

enum cudaComputeMode {
    cudaComputeModeDefault = 0,
    cudaComputeModeExclusive = 1,
    cudaComputeModeProhibited = 2,
    cudaComputeModeExclusiveProcess = 3
};

// The attributes of a device: CUDA's number of each, and its value. `d` is the device's cudaDeviceProp.
#define TKJIT_SIM_ATTRIBUTES(X)                                                         \
    X(MaxThreadsPerBlock, 1, d.maxThreadsPerBlock)                                      \
    X(MaxBlockDimX, 2, d.maxThreadsDim[0])                                              \
    X(MaxBlockDimY, 3, d.maxThreadsDim[1])                                              \
    X(MaxBlockDimZ, 4, d.maxThreadsDim[2])                                              \
    X(MaxGridDimX, 5, d.maxGridSize[0])                                                 \
    X(MaxGridDimY, 6, d.maxGridSize[1])                                                 \
    X(MaxGridDimZ, 7, d.maxGridSize[2])                                                 \
    X(MaxSharedMemoryPerBlock, 8, d.sharedMemPerBlock)                                  \
    X(TotalConstantMemory, 9, d.totalConstMem)                                          \
    X(WarpSize, 10, d.warpSize)                                                         \
    X(MaxPitch, 11, d.memPitch)                                                         \
    X(MaxRegistersPerBlock, 12, d.regsPerBlock)                                         \
    X(ClockRate, 13, d.clockRate)                                                       \
    X(GpuOverlap, 15, d.deviceOverlap)                                                  \
    X(MultiProcessorCount, 16, d.multiProcessorCount)                                   \
    X(KernelExecTimeout, 17, d.kernelExecTimeoutEnabled)                                \
    X(Integrated, 18, d.integrated)                                                     \
    X(CanMapHostMemory, 19, d.canMapHostMemory)                                         \
    X(ComputeMode, 20, d.computeMode)                                                   \
    X(ConcurrentKernels, 31, d.concurrentKernels)                                       \
    X(EccEnabled, 32, d.ECCEnabled)                                                     \
    X(PciBusId, 33, d.pciBusID)                                                         \
    X(PciDeviceId, 34, d.pciDeviceID)                                                   \
    X(MemoryClockRate, 36, d.memoryClockRate)                                           \
    X(GlobalMemoryBusWidth, 37, d.memoryBusWidth)                                       \
    X(L2CacheSize, 38, d.l2CacheSize)                                                   \
    X(MaxThreadsPerMultiProcessor, 39, d.maxThreadsPerMultiProcessor)                   \
    X(AsyncEngineCount, 40, d.asyncEngineCount)                                         \
    X(UnifiedAddressing, 41, d.unifiedAddressing)                                       \
    X(PciDomainId, 50, d.pciDomainID)                                                   \
    X(ComputeCapabilityMajor, 75, d.major)                                              \
    X(ComputeCapabilityMinor, 76, d.minor)                                              \
    X(StreamPrioritiesSupported, 78, d.streamPrioritiesSupported)                       \
    X(GlobalL1CacheSupported, 79, d.globalL1CacheSupported)                             \
    X(LocalL1CacheSupported, 80, d.localL1CacheSupported)                               \
    X(MaxSharedMemoryPerMultiprocessor, 81, d.sharedMemPerMultiprocessor)               \
    X(MaxRegistersPerMultiprocessor, 82, d.regsPerMultiprocessor)                       \
    X(ManagedMemory, 83, d.managedMemory)                                               \
    X(IsMultiGpuBoard, 84, 0)                                                           \
    X(HostNativeAtomicSupported, 86, d.hostNativeAtomicSupported)                       \
    X(PageableMemoryAccess, 88, d.pageableMemoryAccess)                                 \
    X(ConcurrentManagedAccess, 89, d.concurrentManagedAccess)                           \
    X(ComputePreemptionSupported, 90, 0)                                                \
    X(CanUseHostPointerForRegisteredMem, 91, 1)                                         \
    X(CooperativeLaunch, 95, d.cooperativeLaunch)                                       \
    X(MaxSharedMemoryPerBlockOptin, 97, d.sharedMemPerBlockOptin)                       \
    X(DirectManagedMemAccessFromHost, 101, 1)                                           \
    X(MaxBlocksPerMultiprocessor, 106, d.maxBlocksPerMultiProcessor)                    \
    X(ReservedSharedMemoryPerBlock, 111, d.reservedSharedMemPerBlock)                   \
    X(MemoryPoolsSupported, 115, d.memoryPoolsSupported)                                \
    X(ClusterLaunch, 120, d.clusterLaunch)                                              \
    X(IpcEventSupport, 125, 0)

#define TKJIT_SIM_ATTRIBUTE(name, number, value) cudaDevAttr##name = number,
enum cudaDeviceAttr { TKJIT_SIM_ATTRIBUTES(TKJIT_SIM_ATTRIBUTE) };
#undef TKJIT_SIM_ATTRIBUTE

namespace tkjit::sim {

/// Describes a device with Hopper's limits. It has one multiprocessor for each CPU; in a checker, two, so that findings do
/// not depend on the machine and each block of a persistent kernel gets several tiles.
inline cudaDeviceProp device_properties() {
    cudaDeviceProp device{};
    snprintf(device.name, sizeof device.name, "tkjit simulator");
    size_t free_bytes;
    cudaMemGetInfo(&free_bytes, &device.totalGlobalMem);
    device.totalConstMem = 64 << 10;
    device.sharedMemPerBlock = 48 << 10;
    device.sharedMemPerBlockOptin = max_dynamic_shared_bytes;
    device.sharedMemPerMultiprocessor = 228 << 10;
    device.reservedSharedMemPerBlock = 1 << 10;
    device.regsPerBlock = device.regsPerMultiprocessor = 64 << 10;
    device.warpSize = warp_threads;
    device.maxThreadsPerBlock = device.maxThreadsDim[0] = device.maxThreadsDim[1] = max_threads_per_block;
    device.maxThreadsDim[2] = 64;
    device.maxGridSize[0] = INT_MAX;
    device.maxGridSize[1] = device.maxGridSize[2] = 65535;
    device.maxThreadsPerMultiProcessor = 2048;
    device.maxBlocksPerMultiProcessor = 32;
#ifdef TKJIT_SIM_CHECKED
    device.multiProcessorCount = 2;
#else
    device.multiProcessorCount = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
#endif
    device.major = TKJIT_SIM_CUDA_ARCH / 100;
    device.minor = TKJIT_SIM_CUDA_ARCH / 10 % 10;
    device.clockRate = device.memoryClockRate = 1000000;
    device.memoryBusWidth = 64;
    device.l2CacheSize = 1 << 20;
    device.integrated = device.canMapHostMemory = device.unifiedAddressing = device.managedMemory = 1;
    device.concurrentManagedAccess = device.cooperativeLaunch = device.memoryPoolsSupported = 1;
    device.pageableMemoryAccess = device.pageableMemoryAccessUsesHostPageTables = device.directManagedMemAccessFromHost = 1;
    device.hostNativeAtomicSupported = device.canUseHostPointerForRegisteredMem = 1;
    device.globalL1CacheSupported = device.localL1CacheSupported = 1;
    device.clusterLaunch = TKJIT_SIM_CUDA_ARCH >= 900;
    device.singleToDoublePrecisionPerfRatio = 2;
    device.memPitch = INT_MAX;
    device.textureAlignment = device.surfaceAlignment = 512;
    return device;
}

}  // namespace tkjit::sim

inline cudaError_t cudaGetDeviceCount(int* count) {
    *count = 1;
    return cudaSuccess;
}
inline cudaError_t cudaGetDevice(int* device) {
    *device = 0;
    return cudaSuccess;
}
inline cudaError_t cudaSetDevice(int device) {
    return tkjit::sim::remember_error(device == 0 ? cudaSuccess : cudaErrorInvalidDevice);
}
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
    *properties = tkjit::sim::device_properties();
    return cudaSetDevice(device);
}
inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
    const cudaDeviceProp d = tkjit::sim::device_properties();
    switch (attribute) {
#define TKJIT_SIM_ATTRIBUTE(name, number, its_value) \
    case cudaDevAttr##name: *value = static_cast<int>(its_value); break;
        TKJIT_SIM_ATTRIBUTES(TKJIT_SIM_ATTRIBUTE)
#undef TKJIT_SIM_ATTRIBUTE
        default: return tkjit::sim::remember_error(cudaErrorInvalidValue);
    }
    return cudaSetDevice(device);
}
#undef TKJIT_SIM_ATTRIBUTES
inline cudaError_t cudaDeviceReset() { return cudaSuccess; }
inline constexpr unsigned cudaDeviceScheduleAuto = 0, cudaDeviceScheduleSpin = 1, cudaDeviceScheduleYield = 2,
                          cudaDeviceScheduleBlockingSync = 4, cudaDeviceBlockingSync = 4, cudaDeviceMapHost = 8,
                          cudaDeviceLmemResizeToMax = 16;
inline cudaError_t cudaSetDeviceFlags(unsigned) { return cudaSuccess; }
inline cudaError_t cudaGetDeviceFlags(unsigned* flags) {
    *flags = cudaDeviceScheduleAuto;
    return cudaSuccess;
}

// limits, which have no effect here
enum cudaLimit {
    cudaLimitStackSize,
    cudaLimitPrintfFifoSize,
    cudaLimitMallocHeapSize,
    cudaLimitDevRuntimeSyncDepth,
    cudaLimitDevRuntimePendingLaunchCount,
    cudaLimitMaxL2FetchGranularity,
    cudaLimitPersistingL2CacheSize,
};
inline cudaError_t cudaDeviceSetLimit(cudaLimit, size_t) { return cudaSuccess; }
inline cudaError_t cudaDeviceGetLimit(size_t* value, cudaLimit) {
    *value = 8 << 20;
    return cudaSuccess;
}

// There is no other device.
enum cudaDeviceP2PAttr {
    cudaDevP2PAttrPerformanceRank = 1,
    cudaDevP2PAttrAccessSupported,
    cudaDevP2PAttrNativeAtomicSupported,
    cudaDevP2PAttrCudaArrayAccessSupported,
};
inline cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) {
    *can = 0;
    return cudaSuccess;
}
inline cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) { return tkjit::sim::remember_error(cudaErrorInvalidDevice); }
inline cudaError_t cudaDeviceDisablePeerAccess(int) { return tkjit::sim::remember_error(cudaErrorInvalidDevice); }
inline cudaError_t cudaDeviceGetP2PAttribute(int* value, cudaDeviceP2PAttr, int, int) {
    *value = 0;
    return tkjit::sim::remember_error(cudaErrorInvalidDevice);
}
inline cudaError_t cudaDriverGetVersion(int* version) {
    *version = 13000;
    return cudaSuccess;
}
inline cudaError_t cudaRuntimeGetVersion(int* version) { return cudaDriverGetVersion(version); }
/// Also returns a kernel's fault, because host code looks for it here.
inline cudaError_t cudaDeviceSynchronize() { return cudaPeekAtLastError(); }

// ---- streams and events
inline constexpr unsigned cudaStreamDefault = 0, cudaStreamNonBlocking = 1;
#define cudaStreamLegacy (reinterpret_cast<cudaStream_t>(1))
#define cudaStreamPerThread (reinterpret_cast<cudaStream_t>(2))
inline constexpr unsigned cudaEventDefault = 0, cudaEventBlockingSync = 1, cudaEventDisableTiming = 2;

struct CUstream_st {};
struct CUevent_st {
    long long recorded_ns;
};
using cudaEvent_t = CUevent_st*;

inline cudaError_t cudaStreamCreate(cudaStream_t* stream) {
    *stream = new CUstream_st;
    return cudaSuccess;
}
inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) { return cudaStreamCreate(stream); }
inline cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
    return cudaStreamCreate(stream);
}
inline cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    delete stream;
    return cudaSuccess;
}
inline cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaPeekAtLastError(); }
inline cudaError_t cudaStreamQuery(cudaStream_t) { return cudaPeekAtLastError(); }
inline cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned = 0) { return cudaSuccess; }

// All streams have one priority.
inline cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
    *least = *greatest = 0;
    return cudaSuccess;
}
inline cudaError_t cudaStreamGetPriority(cudaStream_t, int* priority) {
    *priority = 0;
    return cudaSuccess;
}
inline cudaError_t cudaStreamGetFlags(cudaStream_t, unsigned* flags) {
    *flags = cudaStreamDefault;
    return cudaSuccess;
}

// Host functions in a stream run at once, because everything before them has finished.
#define CUDART_CB
using cudaStreamCallback_t = void (*)(cudaStream_t stream, cudaError_t status, void* data);
using cudaHostFn_t = void (*)(void* data);
inline cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void* data, unsigned) {
    callback(stream, cudaPeekAtLastError(), data);
    return cudaSuccess;
}
inline cudaError_t cudaLaunchHostFunc(cudaStream_t, cudaHostFn_t function, void* data) {
    function(data);
    return cudaSuccess;
}

// The only memory pool is the process's heap.
using cudaMemPool_t = struct CUmemPoolHandle_st*;
enum cudaMemPoolAttr {
    cudaMemPoolReuseFollowEventDependencies = 1,
    cudaMemPoolReuseAllowOpportunistic,
    cudaMemPoolReuseAllowInternalDependencies,
    cudaMemPoolAttrReleaseThreshold,
    cudaMemPoolAttrReservedMemCurrent,
    cudaMemPoolAttrReservedMemHigh,
    cudaMemPoolAttrUsedMemCurrent,
    cudaMemPoolAttrUsedMemHigh,
};
inline cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
    *pool = nullptr;
    return cudaSetDevice(device);
}
inline cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int device) { return cudaDeviceGetDefaultMemPool(pool, device); }
inline cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t) { return cudaSetDevice(device); }
inline cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) { return cudaSuccess; }
inline cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, size_t) { return cudaSuccess; }

// hints for the L2 cache, which have no effect here
enum cudaAccessProperty { cudaAccessPropertyNormal, cudaAccessPropertyStreaming, cudaAccessPropertyPersisting };
struct cudaAccessPolicyWindow {
    void* base_ptr;
    size_t num_bytes;
    float hitRatio;
    cudaAccessProperty hitProp, missProp;
};
enum cudaStreamAttrID { cudaStreamAttributeAccessPolicyWindow = 1, cudaStreamAttributeSynchronizationPolicy = 3 };
union cudaStreamAttrValue {
    cudaAccessPolicyWindow accessPolicyWindow;
    int syncPolicy;
};
inline cudaError_t cudaStreamSetAttribute(cudaStream_t, cudaStreamAttrID, const cudaStreamAttrValue*) { return cudaSuccess; }
inline cudaError_t cudaStreamGetAttribute(cudaStream_t, cudaStreamAttrID, cudaStreamAttrValue* value) {
    *value = {};
    return cudaSuccess;
}
inline cudaError_t cudaCtxResetPersistingL2Cache() { return cudaSuccess; }

inline cudaError_t cudaEventCreate(cudaEvent_t* event) {
    *event = new CUevent_st{0};
    return cudaSuccess;
}
inline cudaError_t cudaEventCreate(cudaEvent_t* event, unsigned) { return cudaEventCreate(event); }
inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) { return cudaEventCreate(event); }
inline cudaError_t cudaEventDestroy(cudaEvent_t event) {
    delete event;
    return cudaSuccess;
}
inline cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t = nullptr) {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    event->recorded_ns = now.tv_sec * 1000000000ll + now.tv_nsec;
    return cudaSuccess;
}
inline cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaPeekAtLastError(); }
inline cudaError_t cudaEventQuery(cudaEvent_t) { return cudaPeekAtLastError(); }
inline cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
    if (start->recorded_ns == 0 || end->recorded_ns == 0) {
        return tkjit::sim::remember_error(cudaErrorInvalidResourceHandle);
    }
    *milliseconds = static_cast<float>(end->recorded_ns - start->recorded_ns) * 1e-6f;
    return cudaSuccess;
}

// ---- functions: `function` is a kernel of any type, or its address
enum cudaFuncAttribute {
    cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
    cudaFuncAttributePreferredSharedMemoryCarveout = 9,
    cudaFuncAttributeNonPortableClusterSizeAllowed = 16,
};
enum cudaFuncCache {
    cudaFuncCachePreferNone,
    cudaFuncCachePreferShared,
    cudaFuncCachePreferL1,
    cudaFuncCachePreferEqual,
};
enum cudaSharedMemConfig {
    cudaSharedMemBankSizeDefault,
    cudaSharedMemBankSizeFourByte,
    cudaSharedMemBankSizeEightByte,
};
inline cudaError_t cudaDeviceSetSharedMemConfig(cudaSharedMemConfig) { return cudaSuccess; }
inline constexpr int cudaSharedmemCarveoutDefault = -1, cudaSharedmemCarveoutMaxL1 = 0,
                     cudaSharedmemCarveoutMaxShared = 100;

struct cudaFuncAttributes {
    size_t sharedSizeBytes, constSizeBytes, localSizeBytes;
    int maxThreadsPerBlock, numRegs, ptxVersion, binaryVersion, maxDynamicSharedSizeBytes;
};

template <class Function>
inline cudaError_t cudaFuncSetAttribute(Function*, cudaFuncAttribute attribute, int value) {
    const bool too_large = attribute == cudaFuncAttributeMaxDynamicSharedMemorySize &&
                           (value < 0 || static_cast<size_t>(value) > tkjit::sim::max_dynamic_shared_bytes);
    return tkjit::sim::remember_error(too_large ? cudaErrorInvalidValue : cudaSuccess);
}
template <class Function>
inline cudaError_t cudaFuncSetCacheConfig(Function*, cudaFuncCache) {
    return cudaSuccess;
}
inline cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache) { return cudaSuccess; }
template <class Function>
inline cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, Function*) {
    *attributes = {0, 0, 0, tkjit::sim::max_threads_per_block, 32, 90, 90,
                   static_cast<int>(tkjit::sim::max_dynamic_shared_bytes)};
    return cudaSuccess;
}
template <class Function>
inline cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, Function*, int threads,
                                                                 size_t dynamic_shared_bytes) {
    const cudaDeviceProp device = tkjit::sim::device_properties();
    const int by_threads = threads > 0 ? device.maxThreadsPerMultiProcessor / threads : 0;
    const int by_memory = static_cast<int>(device.sharedMemPerMultiprocessor /
                                           (dynamic_shared_bytes + device.reservedSharedMemPerBlock));
    *blocks = min(min(by_threads, by_memory), device.maxBlocksPerMultiProcessor);
    return cudaSuccess;
}
inline constexpr unsigned cudaOccupancyDefault = 0, cudaOccupancyDisableCachingOverride = 1;
template <class Function>
inline cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, Function* function, int threads,
                                                                          size_t dynamic_shared_bytes, unsigned) {
    return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, threads, dynamic_shared_bytes);
}
template <class Function>
inline cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, Function*, const cudaLaunchConfig_t* config) {
    const tkjit::sim::LaunchMode mode = tkjit::sim::read_configuration(*config, {"", 0}).mode;
    const unsigned blocks = mode.cluster.x * mode.cluster.y * mode.cluster.z;
    if (blocks == 0) return tkjit::sim::remember_error(cudaErrorInvalidValue);
    *clusters = tkjit::sim::device_properties().multiProcessorCount / static_cast<int>(blocks);
    return cudaSuccess;
}
template <class Function>
inline cudaError_t cudaOccupancyMaxPotentialBlockSize(int* grid, int* block, Function* function,
                                                      size_t dynamic_shared_bytes = 0, int limit = 0) {
    constexpr int most = tkjit::sim::max_threads_per_block;
    *block = limit > 0 ? min(limit, most) : most;
    const cudaError_t error =
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(grid, function, *block, dynamic_shared_bytes);
    *grid *= tkjit::sim::device_properties().multiProcessorCount;
    return error;
}
