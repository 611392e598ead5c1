// Arrays without `__dlpack__`: DLPack's capsules, the array interfaces of NumPy and of Numba, and the buffer protocol.
#pragma once

#include "array_view.h"
#include "dtypes.h"

#include <dlfcn.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace tkjit::runtime {

// Sizes, and strides in bytes or null, as a DLTensor: these arrays are read as those are.
struct Shown {
    std::vector<int64_t> sizes, strides;
    DLTensor tensor{};

    // False where an extent is below zero, or a stride between two elements.
    bool describe(void* data, DLDataType dtype, DLDevice device, const int64_t* stride_bytes) {
        for (const int64_t size : sizes)
            if (size < 0) return false;
        tensor = {data, device, int32_t(sizes.size()), dtype, sizes.data(), nullptr, 0};
        if (!stride_bytes) return true;
        const int64_t itemsize = dtype.bits / 8;
        for (size_t i = 0; i < sizes.size(); ++i) {
            if (stride_bytes[i] % itemsize != 0) return false;
            strides.push_back(stride_bytes[i] / itemsize);
        }
        tensor.strides = strides.data();
        return true;
    }
};

// "<f4" of the array interface, or a format of the struct module with its item's size; false for what no kernel takes.
inline bool dtype_of_kind(char kind, int64_t bytes, DLDataType* dtype) {
    const auto code = kind == 'f'   ? kDLFloat
                      : kind == 'i' ? kDLInt
                      : kind == 'u' ? kDLUInt
                      : kind == 'b' ? kDLBool
                      : kind == 'c' ? kDLComplex
                                    : kDLOpaqueHandle;
    if (code == kDLOpaqueHandle || bytes < 1 || bytes > 16) return false;
    *dtype = {uint8_t(code), uint8_t(8 * bytes), 1};
    return true;
}

inline bool dtype_of_typestr(const std::string& text, DLDataType* dtype) {
    const bool is_native = text.size() >= 3 && (text[0] == '|' || text[0] == '=' || (text[0] == '<') == (std::endian::native == std::endian::little));
    return is_native && text.find_first_not_of("0123456789", 2) == std::string::npos && text.size() < 5 &&
           dtype_of_kind(text[1], std::stoi(text.substr(2)), dtype);
}

inline bool dtype_of_format(const char* format, int64_t itemsize, DLDataType* dtype) {
    if (!format) format = "B";
    if (*format == '@' || *format == '=' || (*format == '<' && std::endian::native == std::endian::little)) ++format;
    if (!*format || format[1]) return false;
    const char kind = *format == '?'                          ? 'b'
                      : std::strchr("efd", *format)           ? 'f'
                      : std::strchr("bhilqn", *format)        ? 'i'
                      : std::strchr("BHILQNc", *format)       ? 'u'
                                                              : ' ';
    return dtype_of_kind(kind, itemsize, dtype);
}

// The device of memory on a GPU; the driver knows it, which torch has loaded where there is one.
inline bool device_of_pointer(void* pointer, int32_t* device) {
    constexpr int of_ordinal = 9;  // CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
    using GetAttribute = int (*)(void*, int, unsigned long long);
    static void* const driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    const auto get = driver ? reinterpret_cast<GetAttribute>(dlsym(driver, "cuPointerGetAttribute")) : nullptr;
    return get && get(device, of_ordinal, reinterpret_cast<uintptr_t>(pointer)) == 0;
}

// The interface's stream is what the array was written in; the current one waits for it.
inline void wait_for(const py::handle& stream, int32_t device) {
    if (stream.is_none()) return;
    const py::object cuda = py::module_::import("torch").attr("cuda");
    const auto handle = stream.cast<int64_t>();
    if (handle == 2) return void(cuda.attr("synchronize")(device));  // a thread's own default stream, of which torch has none
    const py::object other = handle == 1 ? cuda.attr("default_stream")(device) : cuda.attr("ExternalStream")(stream, py::arg("device") = device);
    cuda.attr("current_stream")(device).attr("wait_stream")(other);
}

// `__array_interface__` and `__cuda_array_interface__` are dictionaries of one form, which is kept: what it describes may
// live no longer.
inline bool view_interface(const py::dict& interface, bool on_gpu, TensorView* view, Values* values) {
    if (!interface.contains("data") || !py::isinstance<py::tuple>(interface["data"])) return false;
    if (interface.contains("mask") && !interface["mask"].is_none()) return false;
    if (!values->keep(Py_NewRef(interface.ptr()))) return false;
    const auto data = interface["data"].cast<py::tuple>();
    void* const pointer = reinterpret_cast<void*>(data[0].cast<uintptr_t>());
    DLDataType dtype;
    if (!dtype_of_typestr(interface["typestr"].cast<std::string>(), &dtype)) dtype = {kDLOpaqueHandle, 8, 1};
    DLDevice device{kDLCPU, 0};
    if (on_gpu) {
        device.device_type = kDLCUDA;
        if (pointer && !device_of_pointer(pointer, &device.device_id)) return false;
        if (interface.contains("stream")) wait_for(interface["stream"], device.device_id);
    }
    Shown shown;
    shown.sizes = interface["shape"].cast<std::vector<int64_t>>();
    std::vector<int64_t> strides;
    if (interface.contains("strides") && !interface["strides"].is_none()) strides = interface["strides"].cast<std::vector<int64_t>>();
    if (!strides.empty() && strides.size() != shown.sizes.size()) return false;
    if (!shown.describe(pointer, dtype, device, strides.empty() ? nullptr : strides.data())) return false;
    view->read_only = data[1].cast<bool>();
    note(shown.tensor, view);
    return true;
}

inline bool view_buffer(PyObject* object, TensorView* view, Values* values) {
    PyObject* const memory = PyMemoryView_FromObject(object);
    if (!memory || !values->keep(memory)) return false;
    const Py_buffer* const buffer = PyMemoryView_GET_BUFFER(memory);
    if (buffer->suboffsets) return false;  // a table of pointers
    DLDataType dtype;
    if (!dtype_of_format(buffer->format, buffer->itemsize, &dtype)) dtype = {kDLOpaqueHandle, 8, 1};
    Shown shown;
    shown.sizes.assign(buffer->shape, buffer->shape + buffer->ndim);
    const std::vector<int64_t> strides(buffer->strides, buffer->strides + (buffer->strides ? buffer->ndim : 0));
    if (!shown.describe(buffer->buf, dtype, {kDLCPU, 0}, buffer->strides ? strides.data() : nullptr)) return false;
    view->read_only = buffer->readonly;
    note(shown.tensor, view);
    return true;
}

// A capsule that nobody has taken over yet: it is looked at, and stays its owner's.
inline bool view_capsule(const py::object& capsule, TensorView* view, Values* values) {
    const DLTensor* const tensor = shown_by(capsule, &view->read_only);
    if (!tensor) return false;
    note(*tensor, view);
    return values->keep(Py_NewRef(capsule.ptr()));
}

// False for what is no array.
inline bool view_without_dlpack(PyObject* object, TensorView* view, Values* values) {
    view->foreign = true;
    if (PyCapsule_CheckExact(object)) return view_capsule(py::reinterpret_borrow<py::object>(object), view, values);
    const py::handle array(object);
    if (has(object, "__cuda_array_interface__")) return view_interface(array.attr("__cuda_array_interface__").cast<py::dict>(), true, view, values);
    if (has(object, "__array_interface__")) return view_interface(array.attr("__array_interface__").cast<py::dict>(), false, view, values);
    return PyObject_CheckBuffer(object) && view_buffer(object, view, values);
}

// Such an array for torch, as a capsule that holds it.
inline py::object capsule_without_dlpack(const py::object& array) {
    struct Managed {
        DLManagedTensor managed{};
        TensorView view;
        Values values;
        PyObject* array = nullptr;
    };
    auto made = std::make_unique<Managed>();
    TensorView& view = made->view;
    view.strided = true;
    if (!view_without_dlpack(array.ptr(), &view, &made->values) || view.dtype < 0) throw py::type_error("no array");
    if (view.problems & ~kBackwards) throw py::type_error("no array");
    if (view.problems) return py::none();
    DLDataType type{};
    type.lanes = 1;
    type.bits = uint8_t(8 * bytes_of(view.dtype));
    const std::string name = dtype_name(view.dtype);
    type.code = view.dtype == TKJIT_BOOL             ? kDLBool
                : view.dtype == TKJIT_BFLOAT16       ? kDLBfloat
                : name.rfind("uint", 0) == 0         ? kDLUInt
                : name.rfind("int", 0) == 0          ? kDLInt
                : name.rfind("complex", 0) == 0      ? kDLComplex
                                                     : kDLFloat;
    const DLDevice device{view.device_type == DeviceType::cpu ? kDLCPU : kDLCUDA, view.device};
    made->managed.dl_tensor = {view.data, device, view.ndim, type, view.sizes, view.strides, 0};
    made->managed.manager_ctx = made.get();
    made->managed.deleter = [](DLManagedTensor* self) {
        const py::gil_scoped_acquire gil;
        auto* const whole = static_cast<Managed*>(self->manager_ctx);
        Py_XDECREF(whole->array);
        delete whole;
    };
    const auto destroy = [](PyObject* capsule) {  // of one that nobody took over
        if (!PyCapsule_IsValid(capsule, "dltensor")) return;
        auto* const managed = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule, "dltensor"));
        managed->deleter(managed);
    };
    PyObject* const capsule = PyCapsule_New(&made->managed, "dltensor", destroy);
    if (!capsule) throw py::error_already_set();
    made->array = Py_NewRef(array.ptr());
    made.release();
    return py::reinterpret_steal<py::object>(capsule);
}

// An array of another framework; numbers and lists are none.
inline bool view_array(PyObject* object, TensorView* view, Values* values) {
    if (PyType_IsSubtype(Py_TYPE(object), &PyType_Type)) return false;
    view->ran_code = true;
    // what stands for a tensor and is none, as torch.fx's proxies do
    view->problems = has(object, "__torch_function__") ? kNoStorage | kWatched : 0;
    if (view->problems) return true;
    if (!has(object, "__dlpack__")) return view_without_dlpack(object, view, values);
    view->foreign = true;
    if (!view_through_method(object, view, values)) return false;
    // JAX's arrays never change, and do not say so
    const auto module = py::type::of(py::handle(object)).attr("__module__").cast<std::string>();
    if (module.rfind("jax", 0) == 0) view->read_only = true;
    return true;
}

// An array's capsule for torch to make a tensor of; None for negative strides, over which torch ends the process.
inline py::object capsule_for_torch(const py::handle& array) {
    if (!has(array.ptr(), "__dlpack__")) return capsule_without_dlpack(py::reinterpret_borrow<py::object>(array));
    py::object capsule = dlpack_capsule(array);
    bool read_only = false;
    const DLTensor* const tensor = shown_by(capsule, &read_only);
    for (int i = 0; tensor && tensor->strides && i < tensor->ndim; ++i)
        if (tensor->strides[i] < 0) return py::none();
    return capsule;
}

}  // namespace tkjit::runtime
