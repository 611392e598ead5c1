// The parts of torch that the runtime uses, and functions that view any array's memory through DLPack.
#pragma once

#include "python_objects.h"
#include "table.h"

#include <ATen/dlpack.h>

#include <cstdint>
#include <string>

namespace tkjit::runtime {

struct Torch {
    PyTypeObject* tensor_type = nullptr;
    PyTypeObject* parameter_type = nullptr;
    PyObject* address = nullptr;  // the descriptor of `_cdata`, the address of a tensor's TensorImpl
    PyObject* disabled_function = nullptr;  // the __torch_function__ of a subclass that disables it
    const DLPackExchangeAPI* exchange = nullptr;
    PyObject* forward_mode = nullptr;   // the dictionary of torch.autograd.forward_ad
    PyObject* forward_level = nullptr;  // the key of its current level
    bool by_method = false;  // read torch's own tensors through __dlpack__ as well; only tests set this
    int impl_word = -1;  // the word after the object's header that holds the TensorImpl's address; -1 if none does
};
inline Torch torch;

// Wraps a stream that torch did not create.
inline Owned external_stream(PyObject* handle, int device) {
    const Owned cuda = attribute(import_module("torch"), "cuda");
    return call_with_keywords(attribute(cuda, "ExternalStream"), build("(O)", handle), build("{si}", "device", device));
}

inline int32_t dtype_of_dlpack(DLDataType type) {
    if (type.lanes == 2 && type.code == kDLFloat4_e2m1fn && type.bits == 4) return TKJIT_FLOAT4_E2M1FN_X2;
    if (type.lanes != 1) return -1;
    const auto by_width = [&](int32_t one, int32_t two, int32_t four, int32_t eight) {
        return type.bits == 8 ? one : type.bits == 16 ? two : type.bits == 32 ? four : type.bits == 64 ? eight : -1;
    };
    switch (type.code) {
        case kDLBool: return TKJIT_BOOL;
        case kDLUInt: return by_width(TKJIT_UINT8, TKJIT_UINT16, TKJIT_UINT32, TKJIT_UINT64);
        case kDLInt: return by_width(TKJIT_INT8, TKJIT_INT16, TKJIT_INT32, TKJIT_INT64);
        case kDLFloat: return by_width(-1, TKJIT_FLOAT16, TKJIT_FLOAT32, TKJIT_FLOAT64);
        case kDLComplex: return type.bits == 64 ? TKJIT_COMPLEX64 : type.bits == 128 ? TKJIT_COMPLEX128 : -1;
        case kDLBfloat: return by_width(-1, TKJIT_BFLOAT16, -1, -1);
        case kDLFloat8_e4m3fn: return TKJIT_FLOAT8_E4M3FN;
        case kDLFloat8_e5m2: return TKJIT_FLOAT8_E5M2;
        case kDLFloat8_e8m0fnu: return TKJIT_FLOAT8_E8M0FNU;
        default: return -1;
    }
}

inline DeviceType device_type_of(int dlpack_type) {
    return dlpack_type == kDLCPU ? DeviceType::cpu : dlpack_type == kDLCUDA ? DeviceType::cuda : DeviceType::other;
}

inline void note(const DLTensor& tensor, TensorView* view) {
    view->data = static_cast<char*>(tensor.data) + tensor.byte_offset;
    view->dtype = dtype_of_dlpack(tensor.dtype);
    view->device_type = device_type_of(tensor.device.device_type);
    view->device = view->device_type == DeviceType::cpu ? 0 : tensor.device.device_id;
    if (view->device_type == DeviceType::other) view->problems |= kOtherDevice;
    note_sizes(tensor.shape, tensor.ndim, view);
    const int64_t bytes_of_one = (tensor.dtype.bits * tensor.dtype.lanes + 7) / 8;
    if (view->strided) {
        if (!(view->problems & kTooManyDims)) view->bytes = noted_bytes(note_strides(tensor.strides, view), bytes_of_one, view);
        return;
    }
    if (!is_contiguous(tensor.shape, tensor.strides, tensor.ndim)) view->problems |= kNotContiguous;
    view->bytes = noted_bytes(noted_elements(tensor.shape, tensor.ndim, view), bytes_of_one, view);
}

// Calls `__dlpack__`. The array's memory stays valid while the capsule exists.
inline Owned dlpack_capsule(PyObject* array) {
    const Owned device = checked(PySequence_Tuple(call_method(array, "__dlpack_device__").get()));
    int type = 0, index = 0;
    if (!PyArg_ParseTuple(device.get(), "ii", &type, &index)) throw Raised{};
    const Owned no_arguments = build("()"), keywords = build("{s(ii)}", "max_version", 1, 1);
    if (type == kDLCUDA) {
        void* stream = nullptr;
        torch.exchange->current_work_stream(kDLCUDA, index, &stream);
        // the producer makes this stream wait for its own stream; 1 is the default stream
        const Owned number = build("K", stream ? static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(stream)) : 1ull);
        if (PyDict_SetItemString(keywords.get(), "stream", number.get()) != 0) throw Raised{};
    }
    const Owned method = attribute(array, "__dlpack__");
    Owned capsule(PyObject_Call(method.get(), no_arguments.get(), keywords.get()));
    if (capsule) return capsule;
    if (!PyErr_ExceptionMatches(PyExc_TypeError)) throw Raised{};
    PyErr_Clear();
    if (PyDict_DelItemString(keywords.get(), "max_version") != 0) throw Raised{};  // the producer predates versions
    return call_with_keywords(method, no_arguments, keywords);
}

// Returns the tensor in a capsule, or null if the object is not a DLPack capsule or has another major version.
inline const DLTensor* shown_by(PyObject* capsule, bool* read_only) {
    const bool versioned = PyCapsule_IsValid(capsule, "dltensor_versioned");
    if (!versioned && !PyCapsule_IsValid(capsule, "dltensor")) return nullptr;
    void* const managed = PyCapsule_GetPointer(capsule, versioned ? "dltensor_versioned" : "dltensor");
    const auto* const latest = static_cast<DLManagedTensorVersioned*>(managed);
    if (versioned && latest->version.major != DLPACK_MAJOR_VERSION) return nullptr;
    *read_only = versioned && latest->flags & DLPACK_FLAG_BITMASK_READ_ONLY;
    return versioned ? &latest->dl_tensor : &static_cast<DLManagedTensor*>(managed)->dl_tensor;
}

// Views an array's memory through `__dlpack__`.
inline bool view_through_method(PyObject* object, TensorView* view, Values* values) {
    Owned capsule = dlpack_capsule(object);
    const DLTensor* const tensor = shown_by(capsule.get(), &view->read_only);
    if (!tensor) return false;
    note(*tensor, view);
    return values->keep(capsule.release());
}

}  // namespace tkjit::runtime
