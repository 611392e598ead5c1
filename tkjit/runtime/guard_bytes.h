// Guard bytes after outputs on the CPU. A kernel that does not check its index against the size overwrites them.
//
// Without the guard, such a kernel would overwrite malloc's own data after the output, and the process would crash
// later, in an unrelated place. The sizes of the tensor and its storage are the same as from torch.empty; only the
// allocation is larger.
#pragma once

#include "allocation.h"
#include "refusals.h"
#include "table.h"
#include "tensor_view.h"

#include <c10/core/StorageImpl.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>

namespace tkjit::runtime {

constexpr size_t kGuardBytes = 8192;    // enough for a block of 1024 threads that write 8 bytes each
constexpr size_t kWatchedBytes = 1024;  // only these first bytes are filled and compared, which takes 40 ns
constexpr unsigned char kGuard = 0xA7;

// Returns the number of guard bytes before the first one that was overwritten.
inline size_t untouched_guard(const unsigned char* guard) {
    if (guard[0] == kGuard && std::memcmp(guard, guard + 1, kWatchedBytes - 1) == 0) return kWatchedBytes;
    size_t first = 0;
    while (guard[first] == kGuard) ++first;
    return first;
}

inline std::atomic<c10::DeleterFnPtr> unguarded_deleter{nullptr};  // torch's own deleter for CPU memory

// The deleter of guarded allocations, by which has_guard recognises them. Resizing a storage replaces its deleter.
inline void delete_guarded(void* context) { unguarded_deleter.load(std::memory_order_relaxed)(context); }

inline bool has_guard(const c10::StorageImpl& storage) { return storage.data_ptr().get_deleter() == delete_guarded; }

// Gives a flat tensor these sizes, with the guard after them. Returns false if torch.empty did not make an ordinary
// tensor, for example because a torch mode intervened.
inline bool fence(PyObject* tensor, int64_t flat, const int64_t* sizes, int ndim, size_t bytes) {
    if (!is_plain_type(Py_TYPE(tensor))) return false;
    c10::TensorImpl& impl = impl_of(tensor);
    if (unusual(impl) || impl.numel() != flat || impl.storage_offset() != 0 || !impl.device().is_cpu()) return false;
    c10::StorageImpl* const storage = storage_of(impl);
    const c10::DeleterFnPtr deleter = storage->data_ptr().get_deleter();
    c10::DeleterFnPtr known = nullptr;
    if (!unguarded_deleter.compare_exchange_strong(known, deleter) && known != deleter) return false;
    impl.set_sizes_contiguous({sizes, size_t(ndim)});
    if (!storage->mutable_data_ptr().compare_exchange_deleter(deleter, delete_guarded)) return false;
    std::memset(static_cast<char*>(storage->mutable_data()) + bytes, kGuard, kWatchedBytes);
    storage->set_nbytes(bytes);
    return true;
}

// Allocates a contiguous tensor with a guard. If this returns null without an exception, the tensor cannot have a
// guard, and the caller must use torch.empty instead.
inline PyObject* guarded_empty(const int64_t* sizes, int ndim, int32_t dtype, const TensorView& like) {
    const int64_t itemsize = bytes_of(dtype);
    int64_t numel = 1, bytes = 0, flat = 0;
    for (int i = 0; i < ndim; ++i)
        if (__builtin_mul_overflow(numel, sizes[i], &numel)) return nullptr;
    if (numel <= 0 || __builtin_mul_overflow(numel, itemsize, &bytes)) return nullptr;
    if (__builtin_add_overflow(numel, int64_t(kGuardBytes) / itemsize, &flat)) return nullptr;
    PyObject* const tensor = torch_empty(&flat, 1, dtype, like);
    if (!tensor) return nullptr;
    try {
        if (fence(tensor, flat, sizes, ndim, size_t(bytes))) return tensor;
    } catch (const Raised&) {
    } catch (const std::exception&) {  // from c10
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

// Raises an error for the first tensor in a call whose guard was overwritten, unless `kernel` is null. Every tensor
// with an overwritten guard is leaked: malloc's data after the guard may be damaged as well, and then free would end
// the process.
inline bool intact(const char* kernel, const TensorView* last) {
    bool raised = false;
    for (const TensorView* view = last; view; view = view->before) {
        if (!view->guarded || !has_guard(*static_cast<c10::StorageImpl*>(view->storage))) continue;
        unsigned char* const guard = static_cast<unsigned char*>(view->data) + view->bytes;
        const size_t first = untouched_guard(guard);
        if (first == kWatchedBytes) continue;
        Py_INCREF(object_of(*view));
        std::memset(guard, kGuard, kWatchedBytes);  // for the next launch of a prepared call
        if (!kernel || raised) continue;
        raised = true;
        const size_t itemsize = bytes_of(view->dtype), numel = view->bytes / itemsize;
        const char* const remedy = view->ndim == 0 ? texts::no_dims
                                                   : "compare the index with the size before writing, as in if (i < size), "
                                                     "and check that the size is the tensor's; "
                                                     "python -m tkjit check FILE.py names the line";
        PyErr_Format(launch_error, "%s: it wrote to element %zu of %s, which has %zu: %s", kernel, numel + first / itemsize,
                     view->name, numel, remedy);
    }
    return !raised;
}

}  // namespace tkjit::runtime
