// Reads arrays that have no `__dlpack__`: DLPack capsules, and objects with NumPy's or Numba's array interface or the
// buffer protocol.
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

// The reason for this pragma is in runtime.cpp.
#pragma GCC push_options
#pragma GCC optimize("Og")

namespace tkjit::runtime {

// Describes sizes, and strides in bytes (or null), as a DLTensor, so that these arrays are read like all others.
struct Shown {
    std::vector<int64_t> sizes, strides;
    DLTensor tensor{};

    // False if an extent is negative or a stride is not a multiple of the element size.
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

// The next three functions find a dtype: from a kind and a size, from an array interface's typestr such as "<f4", and
// from a struct module's format and its item size. They return false for dtypes that no kernel takes.
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

// Asks the driver which device GPU memory is on. If there is a driver, torch has loaded it.
inline bool device_of_pointer(void* pointer, int32_t* device) {
    constexpr int of_ordinal = 9;  // CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
    using GetAttribute = int (*)(void*, int, unsigned long long);
    static void* const driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    const auto get = driver ? reinterpret_cast<GetAttribute>(dlsym(driver, "cuPointerGetAttribute")) : nullptr;
    return get && get(device, of_ordinal, reinterpret_cast<uintptr_t>(pointer)) == 0;
}

// Makes the current stream wait for the stream that the interface names, because the array was written there.
inline void wait_for(PyObject* stream, int32_t device) {
    const Owned cuda = attribute(import_module("torch"), "cuda");
    const int64_t handle = integer_of(stream);
    if (handle == 2) return void(call_method(cuda, "synchronize", "i", device));  // the per-thread default stream, which torch lacks
    const Owned other = handle == 1 ? call_method(cuda, "default_stream", "i", device) : external_stream(stream, device);
    call_method(call_method(cuda, "current_stream", "i", device), "wait_stream", "(O)", other.get());
}

// Returns an item of a dictionary, or an empty reference if the item is missing or None.
inline Owned item_of(const Owned& dictionary, const char* name) {
    const Owned key = checked(PyUnicode_FromString(name));
    PyObject* const found = PyDict_GetItemWithError(dictionary.get(), key.get());
    if (!found && PyErr_Occurred()) throw Raised{};
    return found == Py_None ? Owned() : borrowed(found);
}

inline std::vector<int64_t> integers_of(const Owned& sequence) {
    const Owned items = checked(PySequence_Tuple(sequence.get()));
    std::vector<int64_t> found;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items.get()); ++i) found.push_back(integer_of(PyTuple_GET_ITEM(items.get(), i)));
    return found;
}

// Reads `__array_interface__` or `__cuda_array_interface__`; both are dictionaries with the same keys. The dictionary
// is kept alive, because the memory may live only as long as it does.
inline bool view_interface(const Owned& interface, bool on_gpu, TensorView* view, Values* values) {
    if (!PyDict_Check(interface.get())) raise_type_error("an array interface that is not a dict");
    const Owned data = item_of(interface, "data");
    if (!data || !PyTuple_Check(data.get()) || PyTuple_GET_SIZE(data.get()) != 2 || item_of(interface, "mask")) return false;
    if (!values->keep(Py_NewRef(interface.get()))) return false;
    void* const pointer = reinterpret_cast<void*>(unsigned_of(PyTuple_GET_ITEM(data.get(), 0)));
    const Owned typestr = item_of(interface, "typestr"), shape = item_of(interface, "shape"), given = item_of(interface, "strides");
    if (!typestr || !PyUnicode_Check(typestr.get()) || !shape) raise_type_error("an array interface without typestr or shape");
    DLDataType dtype;
    if (!dtype_of_typestr(utf8_of(typestr.get()), &dtype)) dtype = {kDLOpaqueHandle, 8, 1};
    DLDevice device{kDLCPU, 0};
    if (on_gpu) {
        device.device_type = kDLCUDA;
        if (pointer && !device_of_pointer(pointer, &device.device_id)) return false;
        if (const Owned stream = item_of(interface, "stream")) wait_for(stream.get(), device.device_id);
    }
    Shown shown;
    shown.sizes = integers_of(shape);
    const std::vector<int64_t> strides = given ? integers_of(given) : std::vector<int64_t>();
    if (!strides.empty() && strides.size() != shown.sizes.size()) return false;
    if (!shown.describe(pointer, dtype, device, strides.empty() ? nullptr : strides.data())) return false;
    view->read_only = is_true(PyTuple_GET_ITEM(data.get(), 1));
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

// Reads a capsule without consuming it.
inline bool view_capsule(PyObject* capsule, TensorView* view, Values* values) {
    const DLTensor* const tensor = shown_by(capsule, &view->read_only);
    if (!tensor) return false;
    note(*tensor, view);
    return values->keep(Py_NewRef(capsule));
}

// Reads an array that has no `__dlpack__`. Returns false if the object is not an array.
inline bool view_without_dlpack(PyObject* object, TensorView* view, Values* values) {
    view->foreign = true;
    if (PyCapsule_CheckExact(object)) return view_capsule(object, view, values);
    for (const char* const name : {"__cuda_array_interface__", "__array_interface__"})
        if (has(object, name)) return view_interface(attribute(object, name), name[2] == 'c', view, values);
    return PyObject_CheckBuffer(object) && view_buffer(object, view, values);
}

// Wraps an array without `__dlpack__` for torch, in a capsule that keeps the array alive.
inline Owned capsule_without_dlpack(PyObject* array) {
    struct Managed {
        DLManagedTensor managed{};
        TensorView view;
        Values values;
        PyObject* array = nullptr;
    };
    auto made = std::make_unique<Managed>();
    TensorView& view = made->view;
    view.strided = true;
    const bool is_array = view_without_dlpack(array, &view, &made->values);
    if (!is_array && PyErr_Occurred()) throw Raised{};
    if (!is_array || view.dtype < 0 || view.problems & ~kBackwards) raise_type_error("not an array");
    if (view.problems) return borrowed(Py_None);
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
        const PyGILState_STATE state = PyGILState_Ensure();
        auto* const whole = static_cast<Managed*>(self->manager_ctx);
        Py_XDECREF(whole->array);
        delete whole;
        PyGILState_Release(state);
    };
    const auto destroy = [](PyObject* capsule) {  // for a capsule that was never consumed
        if (!PyCapsule_IsValid(capsule, "dltensor")) return;
        auto* const managed = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule, "dltensor"));
        managed->deleter(managed);
    };
    Owned capsule = checked(PyCapsule_New(&made->managed, "dltensor", destroy));
    made->array = Py_NewRef(array);
    made.release();
    return capsule;
}

// Reads an array from another framework. Returns false for other objects, such as numbers and lists.
inline bool view_array(PyObject* object, TensorView* view, Values* values) {
    if (PyType_IsSubtype(Py_TYPE(object), &PyType_Type)) return false;
    view->ran_code = true;
    // an object that stands in for a tensor, such as a torch.fx proxy
    view->problems = has(object, "__torch_function__") ? kNoStorage | kWatched : 0;
    if (view->problems) return true;
    if (!has(object, "__dlpack__")) return view_without_dlpack(object, view, values);
    view->foreign = true;
    if (!view_through_method(object, view, values)) return false;
    // JAX arrays are immutable but not marked as read-only
    const std::string module = text_of(attribute(reinterpret_cast<PyObject*>(Py_TYPE(object)), "__module__"));
    if (module.rfind("jax", 0) == 0) view->read_only = true;
    return true;
}

// Returns the capsule from which torch makes a tensor. Returns None if a stride is negative, because torch would abort.
inline Owned capsule_for_torch(PyObject* array) {
    if (!has(array, "__dlpack__")) return capsule_without_dlpack(array);
    Owned capsule = dlpack_capsule(array);
    bool read_only = false;
    const DLTensor* const tensor = shown_by(capsule.get(), &read_only);
    for (int i = 0; tensor && tensor->strides && i < tensor->ndim; ++i)
        if (tensor->strides[i] < 0) return borrowed(Py_None);
    return capsule;
}

}  // namespace tkjit::runtime

#pragma GCC pop_options
