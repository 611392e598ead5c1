// Finds the stream for a call (the given one, or torch's current one), and reports its use to torch's allocator.
#pragma once

#include "refusals.h"
#include "table.h"

#include <string>

namespace tkjit::runtime {

inline bool given_stream(const char* kernel, PyObject* given, const TensorView& on, void** stream) {
    if (on.device_type == DeviceType::cpu) {
        refuse_object(kernel, "stream", given, "no stream, since the tensors are on the cpu");
        return false;
    }
    PyObject* handle = PyLong_Check(given) ? Py_NewRef(given) : PyObject_GetAttrString(given, "cuda_stream");
    if (handle) {
        *stream = PyLong_AsVoidPtr(handle);
        Py_DECREF(handle);
    }
    if (PyErr_Occurred()) {
        if (!PyErr_ExceptionMatches(PyExc_Exception)) return false;  // Ctrl-C
        refuse_object(kernel, "stream", given, "a torch.cuda.Stream, or a cudaStream_t as an int");
        return false;
    }
    PyObject* const index = PyLong_Check(given) ? nullptr : PyObject_GetAttrString(given, "device_index");
    PyErr_Clear();
    const long device = index ? PyLong_AsLong(index) : on.device;
    Py_XDECREF(index);
    PyErr_Clear();
    if (device == on.device) return true;
    refuse_object(kernel, "stream", given, ("a stream of the tensors' device, cuda:" + std::to_string(on.device)).c_str());
    return false;
}

inline bool stream(const char* kernel, PyObject* given, const TensorView& on, void** stream, bool* other) {
    if (given && !given_stream(kernel, given, on, stream)) return false;
    void* current = nullptr;
    if (torch.exchange->current_work_stream(kDLCUDA, on.device, &current) != 0) {
        if (!PyErr_Occurred()) PyErr_Format(launch_error, "%s: the device's current stream is unknown", kernel);
        return false;
    }
    if (!given) *stream = current;
    *other = *stream != current;
    return true;
}

inline bool record_stream(PyObject* tensor, PyObject* stream, int device) {
    if (!is_tensor(tensor)) return true;  // another framework has its own allocator
    try {
        const Owned as_torchs = PyLong_Check(stream) ? external_stream(stream, device) : borrowed(stream);
        call_method(tensor, "record_stream", "(O)", as_torchs.get());
        return true;
    } catch (const Raised&) {
        return false;
    }
}

}  // namespace tkjit::runtime
