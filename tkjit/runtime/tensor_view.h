// Ways to look at a torch tensor: through its TensorImpl, through DLPack's C exchange API, or by `__dlpack__` (array_view.h).
//
// The first is fast (30 ns a tensor with every check), and rests on an assumption: that the TensorImpl's address is one
// of the words that follow the Python object's header. The runtime proves it on a probe tensor when it is imported, by
// comparing with `Tensor._cdata`, and takes the second way otherwise. Neither includes ATen: c10 compiles in a second.
#pragma once

#include "array_view.h"
#include "dtypes.h"
#include "table.h"

#include <ATen/dlpack.h>
#include <c10/core/GradMode.h>
#include <c10/core/TensorImpl.h>
#include <c10/core/UndefinedTensorImpl.h>
#include <pybind11/pybind11.h>

#include <array>
#include <cstdint>
#include <string>

namespace tkjit::runtime {

namespace py = pybind11;
using tkjit::dtype_of;  // beside that of a DLDataType

inline bool is_tensor(PyObject* object) {
    PyTypeObject* const type = Py_TYPE(object);
    return type == torch.tensor_type || type == torch.parameter_type || PyType_IsSubtype(type, torch.tensor_type);
}

// A subclass whose __torch_function__ wants to see what is done with it; a Parameter's, for one, is switched off.
inline bool is_watching(PyTypeObject* type) {
    const py::object function = py::reinterpret_steal<py::object>(
        PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), "__torch_function__"));
    if (!function) throw py::error_already_set();
    return function.ptr() != torch.disabled_function;
}

inline bool is_plain_type(PyTypeObject* type) { return type == torch.tensor_type || type == torch.parameter_type; }

// has_any refuses sets with per-backend keys, such as Quantized and Sparse; their bits compare as all others do.
inline bool share_a_bit(c10::DispatchKeySet a, c10::DispatchKeySet b) { return !(a & b).empty(); }

// What dispatch keys say, where a tensor is not plain. Wrappers first: what they say of themselves is not to be trusted.
inline uint32_t problems_of(c10::DispatchKeySet keys, const c10::TensorImpl& impl) {
    using Key = c10::DispatchKey;
    constexpr c10::DispatchKeySet wrapped(
        {Key::Python, Key::Functionalize, Key::FuncTorchBatched, Key::FuncTorchGradWrapper, Key::ZeroTensor});
    constexpr c10::DispatchKeySet not_dense({Key::NestedTensor, Key::Quantized});
    if (share_a_bit(keys, not_dense)) return kNotStrided;
    if (share_a_bit(keys, wrapped)) return kNoStorage;
    if (keys.has_backend(c10::BackendComponent::MetaBit)) return kMeta;
    if (impl.layout() != c10::kStrided) return kNotStrided;
    if (!impl.has_storage()) return kNoStorage;
    uint32_t problems = 0;
    if (keys.has(Key::Conjugate)) problems |= kConjugate;
    if (keys.has(Key::Negative)) problems |= kNegative;
    return problems;
}

inline c10::TensorImpl& impl_of(PyObject* object) {
    const auto words = reinterpret_cast<c10::TensorImpl**>(reinterpret_cast<char*>(object) + sizeof(PyObject));
    return *words[torch.impl_word];
}

// Whether it has a gradient of forward mode. An at::Tensor is a pointer to its TensorImpl, and the word that holds it is
// one; its class is not known here, since ATen's headers take seconds to compile.
inline bool has_forward_gradient(PyObject* object) {
    PyObject* const level = PyDict_GetItem(torch.forward_mode, torch.forward_level);  // borrowed; -1 outside of any
    if (level && PyLong_Check(level) && PyLong_AsLong(level) < 0) return false;
    const auto words = reinterpret_cast<c10::TensorImpl**>(reinterpret_cast<char*>(object) + sizeof(PyObject));
    const auto& tensor = reinterpret_cast<const at::TensorBase&>(words[torch.impl_word]);
    const auto& gradient = words[torch.impl_word]->autograd_meta()->fw_grad(0, tensor);
    return reinterpret_cast<c10::TensorImpl* const&>(gradient) != c10::UndefinedTensorImpl::singleton();
}

inline bool view_through_impl(PyObject* object, TensorView* view) {
    using Key = c10::DispatchKey;
    c10::TensorImpl& impl = impl_of(object);
    const c10::DispatchKeySet keys = impl.key_set();
    constexpr c10::DispatchKeySet unusual =
        c10::DispatchKeySet({Key::Python, Key::Functionalize, Key::FuncTorchBatched, Key::FuncTorchGradWrapper,
                             Key::ZeroTensor, Key::Conjugate, Key::Negative, Key::Sparse, Key::SparseCsr, Key::Quantized,
                             Key::NestedTensor}) |
        c10::DispatchKeySet(c10::BackendComponent::MetaBit);
    view->problems = 0;
    if (share_a_bit(keys, unusual) || !impl.has_storage()) view->problems = problems_of(keys, impl);
    if (view->problems & ~(kConjugate | kNegative)) return true;
    if (!is_plain_type(Py_TYPE(object)) && is_watching(Py_TYPE(object))) view->problems |= kWatched;

    const c10::IntArrayRef sizes = impl.sizes();
    const c10::Device device = impl.device();
    view->sizes = sizes.data();
    view->ndim = static_cast<int32_t>(sizes.size());
    view->dtype = dtype_of(c10::typeMetaToScalarType(impl.dtype()));
    view->device_type = device.is_cpu() ? DeviceType::cpu : device.is_cuda() ? DeviceType::cuda : DeviceType::other;
    view->device = device.is_cpu() ? 0 : device.index();
    if (view->device_type == DeviceType::other) view->problems |= kOtherDevice;
    if (!impl.is_contiguous()) view->problems |= kNotContiguous;
    if (impl.autograd_meta() && c10::GradMode::is_enabled() && (impl.requires_grad() || has_forward_gradient(object)))
        view->problems |= kRequiresGrad;
    note_sizes(*view);
    if (view->problems & ~kWatched) return true;
    // a storage can be freed or shrunk under its tensors, as some training code does
    const size_t needed = (impl.storage_offset() + impl.numel()) * impl.itemsize();
    if (impl.numel() && impl.unsafe_storage().nbytes() < needed) view->problems |= kFreed;
    // a copy-on-write tensor is given its own memory here, since the kernel may write to it
    else view->data = impl.mutable_data();
    return true;
}

inline bool asks(PyObject* object, const char* method) {
    return py::handle(object).attr(method)().cast<bool>();
}

// A subclass that has a __torch_dispatch__ of its own, as fake and functional tensors have.
inline bool dispatches_by_itself(py::handle tensor) {
    const auto method_of = [](PyObject* type) { return py::handle(type).attr("__torch_dispatch__").cast<py::object>(); };
    PyTypeObject* const type = Py_TYPE(tensor.ptr());
    if (type == torch.tensor_type || type == torch.parameter_type) return false;
    return !method_of(reinterpret_cast<PyObject*>(type)).equal(method_of(reinterpret_cast<PyObject*>(torch.tensor_type)));
}

inline bool view_through_exchange(PyObject* object, TensorView* view, Values* values) {
    const py::handle tensor(object);
    view->problems = 0;
    if (tensor.attr("is_nested").cast<bool>()) view->problems = kNotStrided;
    else if (dispatches_by_itself(tensor) || asks(object, "_is_zerotensor")) view->problems = kNoStorage;
    else if (tensor.attr("is_meta").cast<bool>()) view->problems = kMeta;
    else if (tensor.attr("layout").ptr() != torch.strided || tensor.attr("is_quantized").cast<bool>())
        view->problems = kNotStrided;
    if (view->problems) return true;
    if (asks(object, "is_conj")) view->problems |= kConjugate;
    if (asks(object, "is_neg")) view->problems |= kNegative;
    if (view->problems) return true;
    if (!is_plain_type(Py_TYPE(object)) && is_watching(Py_TYPE(object))) view->problems |= kWatched;

    if (torch.by_method) {
        // which refuses what requires a gradient; that is seen below
        if (!view_through_method(tensor.attr("detach")().ptr(), view, values)) return false;
    } else {
        DLTensor borrowed;
        if (torch.exchange->dltensor_from_py_object_no_sync(object, &borrowed) != 0) {
            PyErr_Clear();
            view->problems = kNoStorage;
            return true;
        }
        note(borrowed, view);
    }
    if (!asks(object, "is_contiguous")) view->problems |= kNotContiguous;
    if (tensor.attr("requires_grad").cast<bool>() && c10::GradMode::is_enabled()) view->problems |= kRequiresGrad;
    const auto number = [&](const char* method) { return tensor.attr(method)().cast<int64_t>(); };
    const int64_t needed = (number("storage_offset") + number("numel")) * number("element_size");
    const auto held = tensor.attr("untyped_storage")().attr("nbytes")().cast<int64_t>();
    if (!(view->problems & ~kWatched) && number("numel") && held < needed) view->problems |= kFreed;
    return true;
}

// A tensor to look at; null with an error set. Not from torch.empty, whose first call from Python takes 0.13 ms.
inline py::object make_probe() {
    int64_t shape[] = {3, 5};
    DLTensor like{};
    like.device = {kDLCPU, 0};
    like.dtype = {kDLFloat, 16, 1};
    like.ndim = 2;
    like.shape = shape;
    const auto raise = [](void*, const char*, const char* message) { PyErr_SetString(PyExc_RuntimeError, message); };
    DLManagedTensorVersioned* managed = nullptr;
    void* object = nullptr;
    if (torch.exchange->managed_tensor_allocator(&like, &managed, nullptr, raise) == 0)
        torch.exchange->managed_tensor_to_py_object_no_sync(managed, &object);
    return py::reinterpret_steal<py::object>(static_cast<PyObject*>(object));
}

// Which word after a tensor object's header is its TensorImpl; -1 if none is, or if it reads differently from Python.
inline int find_impl_word() {
    const py::object probe = make_probe();
    if (!probe) {
        PyErr_Clear();
        return -1;
    }
    const auto expected = probe.attr("_cdata").cast<uintptr_t>();
    const auto words = reinterpret_cast<const uintptr_t*>(reinterpret_cast<char*>(probe.ptr()) + sizeof(PyObject));
    const Py_ssize_t count = (Py_TYPE(probe.ptr())->tp_basicsize - Py_ssize_t(sizeof(PyObject))) / Py_ssize_t(sizeof(void*));
    for (int word = 0; word < count; ++word) {
        if (words[word] != expected) continue;
        torch.impl_word = word;
        TensorView view;
        const bool same = view_through_impl(probe.ptr(), &view) && !view.problems && view.ndim == 2 && view.sizes[0] == 3 &&
                          view.sizes[1] == 5 && view.dtype == TKJIT_FLOAT16 && view.device_type == DeviceType::cpu &&
                          reinterpret_cast<uintptr_t>(view.data) == probe.attr("data_ptr")().cast<uintptr_t>();
        return same ? word : -1;
    }
    return -1;
}

inline void find_torch() {
    const py::module_ module = py::module_::import("torch");
    const py::object tensor = module.attr("Tensor");
    torch.tensor_type = reinterpret_cast<PyTypeObject*>(tensor.ptr());
    torch.parameter_type = reinterpret_cast<PyTypeObject*>(module.attr("nn").attr("Parameter").ptr());  // both live on in torch
    torch.strided = module.attr("strided").cast<py::object>().release().ptr();
    torch.disabled_function = module.attr("_C").attr("_disabled_torch_function_impl").cast<py::object>().release().ptr();
    const py::object capsule = tensor.attr("__dlpack_c_exchange_api__");
    torch.exchange = static_cast<const DLPackExchangeAPI*>(
        PyCapsule_GetPointer(capsule.ptr(), PyCapsule_GetName(capsule.ptr())));
    if (!torch.exchange) throw py::error_already_set();
    torch.forward_mode = module.attr("autograd").attr("forward_ad").attr("__dict__").cast<py::object>().release().ptr();
    torch.forward_level = PyUnicode_InternFromString("_current_level");
    torch.impl_word = find_impl_word();
}

}  // namespace tkjit::runtime
