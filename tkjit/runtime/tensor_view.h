// Ways to look at a torch tensor: through its TensorImpl, through DLPack's C exchange API, or by `__dlpack__` (array_view.h).
//
// The first is fast (30 ns a tensor with every check), and rests on an assumption: that the TensorImpl's address is one
// of the words that follow the Python object's header. The runtime proves it on a probe tensor when it is imported, by
// comparing with `Tensor._cdata`, and takes the second way otherwise. Neither includes ATen: c10 compiles in a second.
#pragma once

#include "array_view.h"
#include "interfaces.h"
#include "dtypes.h"
#include "table.h"

#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/dlpack.h>
#include <c10/core/GradMode.h>
#include <c10/core/TensorImpl.h>
#include <c10/core/UndefinedTensorImpl.h>

#include <array>
#include <cstdint>
#include <string>

namespace tkjit::runtime {

inline bool is_tensor(PyObject* object) {
    PyTypeObject* const type = Py_TYPE(object);
    return type == torch.tensor_type || type == torch.parameter_type || PyType_IsSubtype(type, torch.tensor_type);
}

// A subclass whose __torch_function__ wants to see what is done with it; a Parameter's, for one, is switched off.
inline bool is_watching(PyTypeObject* type) {
    return attribute(reinterpret_cast<PyObject*>(type), "__torch_function__").get() != torch.disabled_function;
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

// Where the word is not known: what torch says. A subclass or a mode is not asked, since that would run Python code.
inline c10::TensorImpl& impl_from_torch(PyObject* object) {
    class Silence {
    public:
        Silence() { TorchFunction::set_disabled_state(at::impl::TorchFunctionDisabledState::ALL_DISABLED); }
        ~Silence() { TorchFunction::set_disabled_state(before_); }

    private:
        using TorchFunction = at::impl::PythonTorchFunctionTLS;
        const at::impl::TorchFunctionDisabledState before_ = TorchFunction::get_disabled_state();
    } silence;
    const auto get = Py_TYPE(torch.address)->tp_descr_get;
    const Owned address = checked(get(torch.address, object, reinterpret_cast<PyObject*>(Py_TYPE(object))));
    auto* const impl = static_cast<c10::TensorImpl*>(PyLong_AsVoidPtr(address.get()));
    if (!impl) throw Raised{};
    return *impl;
}

C10_ALWAYS_INLINE c10::TensorImpl& impl_of(PyObject* object) {
    if (torch.impl_word < 0) return impl_from_torch(object);
    const auto words = reinterpret_cast<c10::TensorImpl**>(reinterpret_cast<char*>(object) + sizeof(PyObject));
    return *words[torch.impl_word];
}

// Whether it has a gradient of forward mode. An at::Tensor is a pointer to its TensorImpl, but its class is not known here,
// since ATen's headers take seconds to compile.
inline bool has_forward_gradient(c10::TensorImpl& impl) {
    PyObject* const level = PyDict_GetItem(torch.forward_mode, torch.forward_level);  // borrowed; -1 outside of any
    if (level && PyLong_Check(level) && PyLong_AsLong(level) < 0) return false;
    c10::TensorImpl* const pointer = &impl;
    const auto& gradient = impl.autograd_meta()->fw_grad(0, reinterpret_cast<const at::TensorBase&>(pointer));
    return reinterpret_cast<c10::TensorImpl* const&>(gradient) != c10::UndefinedTensorImpl::singleton();
}

// What dispatch keys and a missing storage say; a tensor with more than kConjugate and kNegative is not to be read.
C10_ALWAYS_INLINE uint32_t unusual(const c10::TensorImpl& impl) {
    using Key = c10::DispatchKey;
    constexpr c10::DispatchKeySet keys =
        c10::DispatchKeySet({Key::Python, Key::Functionalize, Key::FuncTorchBatched, Key::FuncTorchGradWrapper,
                             Key::ZeroTensor, Key::Conjugate, Key::Negative, Key::Sparse, Key::SparseCsr, Key::Quantized,
                             Key::NestedTensor}) |
        c10::DispatchKeySet(c10::BackendComponent::MetaBit);
    // the member, and not has_storage(), which is virtual
    return share_a_bit(impl.key_set(), keys) || !impl.unsafe_storage() ? problems_of(impl.key_set(), impl) : 0;
}

inline c10::StorageImpl* storage_of(const c10::TensorImpl& impl) { return impl.unsafe_storage().unsafeGetStorageImpl(); }

// What DLPack says nothing of: gradients, strides of no consequence, and how much the storage still holds.
C10_ALWAYS_INLINE void note_state(c10::TensorImpl& impl, TensorView* view) {
    if (!view->strided && !impl.is_contiguous()) view->problems |= kNotContiguous;
    if (impl.autograd_meta() && c10::GradMode::is_enabled() && (impl.requires_grad() || has_forward_gradient(impl)))
        view->problems |= kRequiresGrad;
    if (view->problems) return;
    const size_t itemsize = impl.dtype().itemsize();
    view->bytes = size_t(view->strided ? note_strides(impl.strides().data(), view) : impl.numel()) * itemsize;
    // a storage can be freed or shrunk under its tensors, as some training code does
    const size_t needed = impl.storage_offset() * itemsize + view->bytes;
    if (view->bytes && impl.unsafe_storage().nbytes() < needed) view->problems |= kFreed;
    view->storage = storage_of(impl);
}

// Where a tensor's memory is. One that shares its memory until it is written to (copy-on-write) is given its own here, since
// the kernel may. As TensorImpl::mutable_data, without what note_state has asked.
C10_ALWAYS_INLINE void* data_of(const c10::TensorImpl& impl, const TensorView& view) {
    char* const begin = static_cast<char*>(storage_of(impl)->mutable_data());
    return view.bytes ? begin + impl.storage_offset() * impl.dtype().itemsize() : nullptr;
}

// All of a tensor. Runs no Python code.
C10_ALWAYS_INLINE void view_impl(c10::TensorImpl& impl, TensorView* view) {
    view->problems = unusual(impl);
    if (view->problems & ~(kConjugate | kNegative)) return;
    const c10::IntArrayRef sizes = impl.sizes();
    const c10::Device device = impl.device();
    note_sizes(sizes.data(), static_cast<int32_t>(sizes.size()), view);
    view->dtype = dtype_of(c10::typeMetaToScalarType(impl.dtype()));
    view->device_type = device.is_cpu() ? DeviceType::cpu : device.is_cuda() ? DeviceType::cuda : DeviceType::other;
    view->device = device.is_cpu() ? 0 : device.index();
    if (view->device_type == DeviceType::other) view->problems |= kOtherDevice;
    note_state(impl, view);
    if (!view->problems) view->data = data_of(impl, *view);
}

// Whether a subclass watches; one that is not torch's own may have a metaclass, whose code runs.
C10_ALWAYS_INLINE void note_type(PyObject* object, TensorView* view) {
    if (is_plain_type(Py_TYPE(object)) || view->problems & (kNoStorage | kMeta | kNotStrided)) return;
    view->ran_code = true;
    if (is_watching(Py_TYPE(object))) view->problems |= kWatched;
}

C10_ALWAYS_INLINE bool view_through_impl(PyObject* object, TensorView* view) {
    view_impl(impl_of(object), view);
    note_type(object, view);
    return true;
}

inline bool view_through_exchange(PyObject* object, TensorView* view, Values* values) {
    view->ran_code = true;
    view->problems = unusual(impl_of(object));
    if (view->problems) return true;
    if (torch.by_method) {
        // which refuses what requires a gradient; that is seen below
        if (!view_through_method(call_method(object, "detach").get(), view, values)) return false;
    } else {
        DLTensor borrowed;
        if (torch.exchange->dltensor_from_py_object_no_sync(object, &borrowed) != 0) {
            PyErr_Clear();
            view->problems = kNoStorage;
            return true;
        }
        note(borrowed, view);
    }
    note_state(impl_of(object), view);
    note_type(object, view);
    return true;
}

// A tensor to look at; null with an error set. Not from torch.empty, whose first call from Python takes 0.13 ms.
inline Owned make_probe() {
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
    return Owned(static_cast<PyObject*>(object));
}

// Which word after a tensor object's header is its TensorImpl; -1 if none is, or if it reads differently from Python.
inline int find_impl_word() {
    const Owned probe = make_probe();
    if (!probe) {
        PyErr_Clear();
        return -1;
    }
    const uintptr_t expected = unsigned_of(attribute(probe, "_cdata"));
    const auto words = reinterpret_cast<const uintptr_t*>(reinterpret_cast<char*>(probe.get()) + sizeof(PyObject));
    const Py_ssize_t count = (Py_TYPE(probe.get())->tp_basicsize - Py_ssize_t(sizeof(PyObject))) / Py_ssize_t(sizeof(void*));
    for (int word = 0; word < count; ++word) {
        if (words[word] != expected) continue;
        torch.impl_word = word;
        TensorView view;
        const bool same = view_through_impl(probe.get(), &view) && !view.problems && view.ndim == 2 && view.sizes[0] == 3 &&
                          view.sizes[1] == 5 && view.dtype == TKJIT_FLOAT16 && view.device_type == DeviceType::cpu &&
                          reinterpret_cast<uintptr_t>(view.data) == unsigned_of(call_method(probe, "data_ptr"));
        return same ? word : -1;
    }
    return -1;
}

inline void find_torch() {
    const Owned module = import_module("torch"), tensor = attribute(module, "Tensor");
    torch.tensor_type = reinterpret_cast<PyTypeObject*>(tensor.get());
    torch.parameter_type = reinterpret_cast<PyTypeObject*>(attribute(attribute(module, "nn"), "Parameter").get());  // both live on in torch
    torch.disabled_function = attribute(attribute(module, "_C"), "_disabled_torch_function_impl").release();
    const Owned capsule = attribute(tensor, "__dlpack_c_exchange_api__");
    torch.exchange = static_cast<const DLPackExchangeAPI*>(
        PyCapsule_GetPointer(capsule.get(), PyCapsule_GetName(capsule.get())));
    if (!torch.exchange) throw Raised{};
    const Owned autograd = attribute(module, "autograd");
    torch.forward_mode = attribute(attribute(autograd, "forward_ad"), "__dict__").release();
    torch.forward_level = PyUnicode_InternFromString("_current_level");
    torch.address = call_method(attribute(attribute(tensor, "__base__"), "__dict__"), "__getitem__", "s", "_cdata").release();
    torch.impl_word = find_impl_word();
}

}  // namespace tkjit::runtime
