// Guard bytes behind outputs on the CPU: a kernel that does not compare its index with the size writes there.
//
// Without them it would overwrite what malloc keeps behind the memory, and the process would end later, in a place that has
// nothing to do with the kernel. The tensor is as torch.empty makes it, and so is its storage's size; its allocation alone
// is larger.
#pragma once

#include "allocation.h"
#include "refusals.h"
#include "table.h"
#include "tensor_view.h"

#include <c10/core/StorageImpl.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tkjit::runtime {

constexpr size_t kGuardBytes = 8192;    // a block of 1024 threads, each with 8 bytes, ends in them
constexpr size_t kWatchedBytes = 1024;  // of which the first are filled and compared: to do so takes 40 ns
constexpr unsigned char kGuard = 0xA7;

inline const unsigned char* guard_behind(const TensorView& view) { return static_cast<const unsigned char*>(view.data) + view.bytes; }

// How many bytes of the guard are as they were.
inline size_t untouched_guard(const unsigned char* guard) {
    if (guard[0] == kGuard && std::memcmp(guard, guard + 1, kWatchedBytes - 1) == 0) return kWatchedBytes;
    size_t first = 0;
    while (guard[first] == kGuard) ++first;
    return first;
}

// A contiguous tensor with a guard; null where it cannot have one, and torch.empty is to say why: an exception may be set.
inline PyObject* guarded_empty(const int64_t* sizes, int ndim, int32_t dtype, const TensorView& like) {
    const auto itemsize = int64_t(bytes_of(dtype));
    int64_t numel = 1, bytes = 0;
    for (int i = 0; i < ndim; ++i)
        if (__builtin_mul_overflow(numel, sizes[i], &numel)) return nullptr;
    if (numel <= 0 || __builtin_mul_overflow(numel, itemsize, &bytes)) return nullptr;
    const int64_t flat = numel + int64_t(kGuardBytes) / itemsize;
    PyObject* const tensor = torch_empty(&flat, 1, dtype, like);
    if (!tensor) return nullptr;
    if (is_plain_type(Py_TYPE(tensor))) {  // a mode of torch's may make something else
        c10::TensorImpl& impl = impl_of(tensor);
        if (!unusual(impl) && impl.numel() == flat && impl.storage_offset() == 0 && impl.device().is_cpu()) {
            c10::StorageImpl* const storage = storage_of(impl);
            std::memset(static_cast<char*>(storage->mutable_data()) + bytes, kGuard, kWatchedBytes);
            storage->set_nbytes(size_t(bytes));
            impl.set_sizes_contiguous({sizes, size_t(ndim)});
            return tensor;
        }
    }
    Py_DECREF(tensor);
    return nullptr;
}

inline PyObject* empty(const int64_t* sizes, int ndim, int32_t dtype, const TensorView& like, bool* guarded) {
    if (!allocation_found.load(std::memory_order_acquire) && !find_allocation()) return nullptr;
    if (like.device_type == DeviceType::cpu) {
        PyObject* const tensor = guarded_empty(sizes, ndim, dtype, like);
        *guarded = tensor;
        if (tensor || PyErr_Occurred()) return tensor;
    }
    return torch_empty(sizes, ndim, dtype, like);
}

inline bool intact(const char* kernel, const TensorView* last) {
    for (const TensorView* view = last; view; view = view->before) {
        if (!view->guarded) continue;
        const size_t first = untouched_guard(guard_behind(*view));
        if (first == kWatchedBytes) continue;
        // never given back: what malloc keeps behind the guard may be overwritten too, and free would end the process
        Py_INCREF(object_of(*view));
        const size_t itemsize = bytes_of(view->dtype), numel = view->bytes / itemsize;
        const char* const remedy = view->ndim == 0 ? "its spec names no dims, which is one number: \"...\" is any shape, \"N\" a vector"
                                                   : "compare the index with the size before writing, as in if (i >= size) return; "
                                                     "TKJIT_SIM_BOUNDS=1, or python -m tkjit check, names the line";
        PyErr_Format(launch_error, "%s: it wrote to element %zu of %s, which has %zu: %s", kernel, numel + first / itemsize,
                     view->name, numel, remedy);
        return false;
    }
    return true;
}

}  // namespace tkjit::runtime
