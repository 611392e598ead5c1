// Protects the memory of a call's tensors while the call launches.
//
// A launch releases the GIL. Another thread may then give a tensor another storage (`set_`, `.data =`) or drop the last
// reference to a storage, so a launch holds each storage. Another thread may also resize a storage, which frees the
// memory that all its holders use. On the CPU, a storage that is held therefore cannot be resized, and torch raises its
// own error for an attempt. A process with only one Python thread does not need this protection.
#pragma once

#include "refusals.h"
#include "table.h"
#include "tensor_view.h"

#include <c10/core/StorageImpl.h>
#include <c10/util/intrusive_ptr.h>

#include <cstring>
#include <mutex>
#include <vector>

namespace tkjit::runtime {

// ---- reading tensors again -----------------------------------------------------------------------------------------

inline bool is_as_read(const TensorView& view) {
    TensorView now;
    now.strided = view.strided;
    now.wide = view.wide;
    try {
        view_impl(impl_of(object_of(view)), &now);
    } catch (const Raised&) {
        PyErr_Clear();
        return false;
    } catch (const std::exception&) {  // from c10: no memory to copy a copy-on-write tensor
        return false;
    }
    return !(now.problems & ~kRequiresGrad) && now.data == view.data && now.storage == view.storage && now.dtype == view.dtype &&
           now.device_type == view.device_type && now.device == view.device && now.ndim == view.ndim &&
           std::memcmp(now.sizes, view.sizes, size_t(now.ndim) * sizeof *now.sizes) == 0 &&
           (!view.strided || std::memcmp(now.strides, view.strides, size_t(now.ndim) * sizeof *now.strides) == 0);
}

inline bool confirm(const char* kernel, const TensorView* last, const char* when) {
    for (const TensorView* view = last; view; view = view->before) {
        // the capsule of another framework's array keeps it alive and unchanged
        if (view->foreign || is_as_read(*view)) continue;
        PyErr_Format(argument_error,
                     "%s: %s was given another shape or other memory %s; expected a tensor that does not change until the launch",
                     kernel, view->name, when);
        return false;
    }
    return true;
}

// ---- storages of fixed size ----------------------------------------------------------------------------------------

#ifdef Py_GIL_DISABLED
using Lock = std::lock_guard<std::mutex>;
#else
struct Lock {  // the GIL takes the place of a lock
    explicit Lock(std::mutex&) {}
};
#endif

// Counts, for each resizable storage in use, the launches that use it. There are only a few at a time.
class Fixed {
public:
    void add(c10::StorageImpl* storage) {
        for (User& known : users_)
            if (known.storage == storage) return void(++known.launches);
        if (!storage->resizable() || !storage->allocator()) return;  // shared memory has no allocator
        users_.push_back({storage, 1});
        storage->set_resizable(false);
    }
    void remove(c10::StorageImpl* storage) {
        for (User& known : users_) {
            if (known.storage != storage) continue;
            if (--known.launches != 0) return;
            known = users_.back();
            users_.pop_back();
            if (storage->allocator()) storage->set_resizable(true);  // otherwise another thread has moved it to shared memory
            return;
        }
    }

    std::mutex mutex;

private:
    struct User {
        c10::StorageImpl* storage;
        int launches;
    };
    std::vector<User> users_;
};
inline Fixed fixed;

inline c10::StorageImpl* storage_of(const TensorView& view) { return static_cast<c10::StorageImpl*>(view.storage); }

inline void hold(const TensorView* last) {
    const Lock lock(fixed.mutex);
    for (const TensorView* view = last; view; view = view->before) {
        if (!view->storage) continue;
        c10::raw::intrusive_ptr::incref(storage_of(*view));
        // freed GPU memory is reused by later work in the same stream, after the launch
        if (view->device_type == DeviceType::cpu) fixed.add(storage_of(*view));
    }
}

inline void let_go(const TensorView* last) {
    const Lock lock(fixed.mutex);
    for (const TensorView* view = last; view; view = view->before) {
        if (!view->storage) continue;
        if (view->device_type == DeviceType::cpu) fixed.remove(storage_of(*view));
        c10::raw::intrusive_ptr::decref(storage_of(*view));
    }
}

}  // namespace tkjit::runtime
