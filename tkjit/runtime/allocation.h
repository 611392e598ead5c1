// Allocates outputs with torch.empty, and converts results to arrays of other frameworks.
#pragma once

#include "refusals.h"
#include "table.h"

#include <atomic>
#include <mutex>

namespace tkjit::runtime {

// Keeps a reference until the process ends, because the module lives that long.
inline PyObject* keep(Owned object) { return object.release(); }

struct Allocation {
    PyObject* empty = nullptr;
    PyObject* keywords = nullptr;  // ("dtype", "device")
    PyObject* dtypes[TKJIT_DTYPE_COUNT] = {};
    PyObject* cpu = nullptr;
    PyObject* cuda[kMaxDevices] = {};
    PyObject* device_class = nullptr;
};
inline Allocation allocation;
inline std::atomic<bool> allocation_found{false};

// Looks up the objects that torch_empty() uses. The module's import skips this, because many kernels allocate nothing.
inline bool find_allocation() {
    try {
        const Owned module = import_module("torch"), device_class = attribute(module, "device");
        static std::mutex finding;
        const std::lock_guard lock(finding);
        if (allocation_found.load(std::memory_order_relaxed)) return true;
        for (int dtype = 0; dtype < TKJIT_DTYPE_COUNT; ++dtype)
            allocation.dtypes[dtype] = keep(attribute(module, dtype_name(dtype)));
        allocation.keywords = keep(build("(ss)", "dtype", "device"));
        allocation.device_class = keep(borrowed(device_class.get()));
        allocation.cpu = keep(call(device_class.get(), "s", "cpu"));
        allocation.empty = keep(attribute(module, "empty"));
        for (int device = 0; device < kMaxDevices; ++device)
            allocation.cuda[device] = keep(call(device_class.get(), "si", "cuda", device));
        allocation_found.store(true, std::memory_order_release);
        return true;
    } catch (const Raised&) {
        return false;
    }
}

// Returns a new reference to the torch.device that `like` is on.
inline PyObject* device_object(const TensorView& like) {
    if (like.device_type == DeviceType::cpu) return Py_NewRef(allocation.cpu);
    if (like.device >= kMaxDevices) return PyObject_CallFunction(allocation.device_class, "si", "cuda", int(like.device));
    return Py_NewRef(allocation.cuda[like.device]);
}

// Calls torch.empty, because a tensor from the exchange API's allocator ignores record_stream and cannot be resized.
inline PyObject* torch_empty(const int64_t* sizes, int ndim, int32_t dtype, const TensorView& like) {
    PyObject* const shape = PyTuple_New(ndim);
    if (!shape) return nullptr;
    for (int i = 0; i < ndim; ++i) {
        PyObject* const size = PyLong_FromLongLong(sizes[i]);
        if (!size) {
            Py_DECREF(shape);
            return nullptr;
        }
        PyTuple_SET_ITEM(shape, i, size);
    }
    PyObject* const device = device_object(like);
    PyObject* const args[] = {shape, allocation.dtypes[dtype], device};
    PyObject* const tensor = device ? PyObject_Vectorcall(allocation.empty, args, 1, allocation.keywords) : nullptr;
    Py_DECREF(shape);
    Py_XDECREF(device);
    return tensor;
}

// Converts a tensor with the `from_dlpack` of the array's API namespace or, if the array has no namespace, with that of
// its framework.
inline PyObject* as_array(PyObject* tensor, PyObject* like) {
    try {
        if (!has(like, "__dlpack__")) return Py_NewRef(tensor);  // a buffer belongs to no framework
        if (has(like, "__array_namespace__"))
            return call_method(call_method(like, "__array_namespace__"), "from_dlpack", "(O)", tensor).release();
        const std::string module = text_of(attribute(reinterpret_cast<PyObject*>(Py_TYPE(like)), "__module__"));
        const Owned framework = import_module(module.substr(0, module.find('.')).c_str());
        return call_method(framework, "from_dlpack", "(O)", tensor).release();
    } catch (const Raised&) {
        if (!PyErr_ExceptionMatches(PyExc_Exception)) return nullptr;  // Ctrl-C
        explain([&] {  // NumPy, for example, has no bfloat16
            raise(argument_error, "a result is " + describe_tensor(tensor) + ", which " + Py_TYPE(like)->tp_name +
                                      " cannot hold; pass tensors to get a tensor");
        });
        return nullptr;
    }
}

}  // namespace tkjit::runtime
