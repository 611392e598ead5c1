// The functions that every export has. tkjit/export/tensors.h declares them.
#pragma once

#include <tkjit/export/dlpack.h>
#include <tkjit/export/memory.h>

#include <dlfcn.h>

namespace tkjit::exported {

// If a process has two exports, calls reach the functions of the first. If this one is for the CPU only, it has no CUDA
// runtime and forwards calls for a GPU to the next library. Returns that library's function of the same name, or null.
template <class Function>
Function* next_for(tkjit_device device, const char* name) {
#ifdef TKJIT_EXPORT_CUDA
    return nullptr;
#else
    return device.type == TKJIT_CUDA ? reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name)) : nullptr;
#endif
}

}  // namespace tkjit::exported

extern "C" {

// Shared by all launchers of this library: with TKJIT_SYNC=1, each waits for its kernel.
int32_t tkjit_synchronous = [] {
    const char* const value = std::getenv("TKJIT_SYNC");
    return value && std::strcmp(value, "1") == 0;
}();

TKJIT_EXPORT const char* tkjit_dtype_name(tkjit_dtype dtype) { return tkjit::dtype_name(dtype); }
TKJIT_EXPORT int64_t tkjit_dtype_size(tkjit_dtype dtype) {
    return dtype >= 0 && dtype < TKJIT_DTYPE_COUNT ? tkjit::bytes_of(dtype) : 0;
}

TKJIT_EXPORT tkjit_error tkjit_tensor_new(tkjit_tensor* tensor, tkjit_dtype dtype, tkjit_device device, int32_t ndim,
                                          const int64_t* sizes) {
    using namespace tkjit::exported;
    if (auto* const next = next_for<decltype(tkjit_tensor_new)>(device, "tkjit_tensor_new")) return next(tensor, dtype, device, ndim, sizes);
    return returning_errors([&] {
        if (!tensor) throw Error(TKJIT_ARGUMENT_ERROR, "tkjit_tensor_new: tensor is null");
        tkjit_tensor made = described("tkjit_tensor_new", dtype, device, ndim, sizes);
        allocate_for(made);
        *tensor = made;
    });
}

TKJIT_EXPORT tkjit_error tkjit_tensor_view(tkjit_tensor* tensor, void* data, tkjit_dtype dtype, tkjit_device device, int32_t ndim,
                                           const int64_t* sizes, const int64_t* strides) {
    using namespace tkjit::exported;
    return returning_errors([&] {
        if (!tensor) throw Error(TKJIT_ARGUMENT_ERROR, "tkjit_tensor_view: tensor is null");
        tkjit_tensor made = described("tkjit_tensor_view", dtype, device, ndim, sizes, strides);
        made.data = data;
        if (bytes_of_tensor(made) != 0 && !data) throw Error(TKJIT_ARGUMENT_ERROR, "tkjit_tensor_view: data is null");
        *tensor = made;
    });
}

TKJIT_EXPORT tkjit_error tkjit_tensor_free(tkjit_tensor* tensor) {
    using namespace tkjit::exported;
    return returning_errors([&] {
        if (!tensor || tensor->abi == 0) return;
        check(tensor, "tkjit_tensor_free", "the tensor");
        auto* const memory = static_cast<Memory*>(tensor->memory);
        uint64_t generation = tensor->generation;
        // if two threads free the tensor at once, one of them gets the error
        if (memory && !memory->generation.compare_exchange_strong(generation, generation + 1, std::memory_order_acq_rel))
            throw Error(TKJIT_ARGUMENT_ERROR, "tkjit_tensor_free: the tensor is already freed");
        if (memory) memory->release(memory);
        *tensor = {};
    });
}

TKJIT_EXPORT int64_t tkjit_tensor_bytes(const tkjit_tensor* tensor) {
    using namespace tkjit::exported;
    try {
        return tensor && problem_of(*tensor).empty() ? bytes_of_tensor(*tensor) : 0;
    } catch (const std::exception&) {
        return 0;
    }
}

TKJIT_EXPORT tkjit_error tkjit_tensor_copy(const tkjit_tensor* to, const tkjit_tensor* from, void* stream) {
    using namespace tkjit::exported;
    if (to && from)
        if (auto* const next = next_for<decltype(tkjit_tensor_copy)>(to->device.type == TKJIT_CUDA ? to->device : from->device, "tkjit_tensor_copy")) return next(to, from, stream);
    return returning_errors([&] {
        const size_t bytes = bytes_to_use(from, "tkjit_tensor_copy", "from");
        bytes_to_use(to, "tkjit_tensor_copy", "to");
        const bool is_alike = to->dtype == from->dtype && to->ndim == from->ndim &&
                              std::memcmp(to->sizes, from->sizes, size_t(to->ndim) * sizeof *to->sizes) == 0;
        if (!is_alike) throw Error(TKJIT_SHAPE_ERROR, "tkjit_tensor_copy: to is " + text_of(*to) + "; expected it like " + text_of(*from));
        if (to->read_only) throw Error(TKJIT_ARGUMENT_ERROR, "tkjit_tensor_copy: to is read-only");
        copy_bytes(to->device, to->data, from->device, from->data, bytes, stream);
    });
}

TKJIT_EXPORT bool tkjit_tensor_is_contiguous(const tkjit_tensor* tensor) {
    using namespace tkjit::exported;
    return tensor && problem_of(*tensor).empty() && tkjit::is_contiguous(tensor->sizes, tensor->strides, tensor->ndim);
}

TKJIT_EXPORT int32_t tkjit_device_count(void) {
    using namespace tkjit::exported;
    if (auto* const next = next_for<decltype(tkjit_device_count)>({TKJIT_CUDA, 0}, "tkjit_device_count")) return next();
    int count = 0;
#ifdef TKJIT_EXPORT_CUDA
    if (cudaGetDeviceCount(&count) != cudaSuccess) {
        cudaGetLastError();
        return 0;
    }
#endif
    return count;
}

TKJIT_EXPORT tkjit_error tkjit_stream_new(tkjit_device device, void** stream) {
    using namespace tkjit::exported;
    if (auto* const next = next_for<decltype(tkjit_stream_new)>(device, "tkjit_stream_new")) return next(device, stream);
    return returning_errors([&] {
        if (!stream) throw Error(TKJIT_ARGUMENT_ERROR, "tkjit_stream_new: stream is null");
        check_device(device);
        *stream = nullptr;
#ifdef TKJIT_EXPORT_CUDA
        if (device.type == TKJIT_CPU) return;
        const CurrentDevice current(device.index);
        cudaStream_t made = nullptr;
        check(cudaStreamCreate(&made), "tkjit_stream_new");
        *stream = made;
#endif
    });
}

TKJIT_EXPORT tkjit_error tkjit_stream_free(tkjit_device device, void* stream) {
    using namespace tkjit::exported;
    if (auto* const next = next_for<decltype(tkjit_stream_free)>(device, "tkjit_stream_free")) return next(device, stream);
    return returning_errors([&] {
        check_device(device);
#ifdef TKJIT_EXPORT_CUDA
        if (device.type == TKJIT_CPU || !stream) return;
        const CurrentDevice current(device.index);
        check(cudaStreamDestroy(static_cast<cudaStream_t>(stream)), "tkjit_stream_free");
#endif
    });
}

TKJIT_EXPORT tkjit_error tkjit_stream_wait(tkjit_device device, void* stream) {
    using namespace tkjit::exported;
    if (auto* const next = next_for<decltype(tkjit_stream_wait)>(device, "tkjit_stream_wait")) return next(device, stream);
    return returning_errors([&] {
        check_device(device);
#ifdef TKJIT_EXPORT_CUDA
        if (device.type == TKJIT_CPU) return;
        const CurrentDevice current(device.index);
        check(cudaStreamSynchronize(static_cast<cudaStream_t>(stream)), "tkjit_stream_wait");
#endif
    });
}

TKJIT_EXPORT tkjit_error tkjit_tensor_from_dlpack(tkjit_tensor* tensor, DLManagedTensorVersioned* managed) {
    using namespace tkjit::exported;
    return returning_errors([&] { *tensor = from_dlpack(tensor, managed); });
}

TKJIT_EXPORT tkjit_error tkjit_tensor_to_dlpack(tkjit_tensor* tensor, DLManagedTensorVersioned** managed) {
    using namespace tkjit::exported;
    return returning_errors([&] {
        if (!managed) throw Error(TKJIT_ARGUMENT_ERROR, "tkjit_tensor_to_dlpack: managed is null");
        check(tensor, "tkjit_tensor_to_dlpack", "the tensor");
        if (!tensor->data && bytes_of_tensor(*tensor) != 0)
            throw Error(TKJIT_ARGUMENT_ERROR, "tkjit_tensor_to_dlpack: the tensor has no memory: its data is null");
        *managed = to_dlpack(*tensor);
        *tensor = {};
    });
}

}
