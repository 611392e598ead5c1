// Reads torch tensors, in one of three ways: through the TensorImpl, through DLPack's C exchange API, or through
// `__dlpack__` (array_view.h).
//
// The first way is fast (30 ns per tensor with all checks), but assumes that one of the words after the Python object's
// header is the TensorImpl's address. When the runtime is imported, it verifies this by comparing a probe tensor with
// `Tensor._cdata`; if the comparison fails, it uses the second way. Neither way needs ATen's large headers, and c10
// compiles in a second.
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

// Returns whether operations must go through a subclass's __torch_function__. Some subclasses, such as Parameter,
// disable it.
inline bool is_watching(PyTypeObject* type) {
    return attribute(reinterpret_cast<PyObject*>(type), "__torch_function__").get() != torch.disabled_function;
}

inline bool is_plain_type(PyTypeObject* type) { return type == torch.tensor_type || type == torch.parameter_type; }

// Replaces has_any, which rejects sets with per-backend keys such as Quantized and Sparse. The bits of such keys can be
// compared like all others.
inline bool share_a_bit(c10::DispatchKeySet a, c10::DispatchKeySet b) { return !(a & b).empty(); }

// Uses a tensor's dispatch keys to find why it is not plain. Wrappers are checked before the device and the layout,
// because they may report these wrongly.
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

// Asks torch for a tensor's TensorImpl, for use when torch.impl_word is not known. Subclasses and modes are disabled,
// because they would run Python code.
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

// Returns whether a tensor has a forward-mode gradient. An at::Tensor is just a pointer to its TensorImpl, but its
// class is incomplete here, because ATen's headers take seconds to compile.
inline bool has_forward_gradient(c10::TensorImpl& impl) {
    PyObject* const level = PyDict_GetItem(torch.forward_mode, torch.forward_level);  // borrowed; -1 outside of all levels
    if (level && PyLong_Check(level) && PyLong_AsLong(level) < 0) return false;
    c10::TensorImpl* const pointer = &impl;
    const auto& gradient = impl.autograd_meta()->fw_grad(0, reinterpret_cast<const at::TensorBase&>(pointer));
    return reinterpret_cast<c10::TensorImpl* const&>(gradient) != c10::UndefinedTensorImpl::singleton();
}

// Returns the problems that a tensor's dispatch keys or a missing storage reveal. Unless these are only kConjugate and
// kNegative, nothing else may be read from the tensor.
C10_ALWAYS_INLINE uint32_t unusual(const c10::TensorImpl& impl) {
    using Key = c10::DispatchKey;
    constexpr c10::DispatchKeySet keys =
        c10::DispatchKeySet({Key::Python, Key::Functionalize, Key::FuncTorchBatched, Key::FuncTorchGradWrapper,
                             Key::ZeroTensor, Key::Conjugate, Key::Negative, Key::Sparse, Key::SparseCsr, Key::Quantized,
                             Key::NestedTensor}) |
        c10::DispatchKeySet(c10::BackendComponent::MetaBit);
    // reads the member, because has_storage() is virtual
    return share_a_bit(impl.key_set(), keys) || !impl.unsafe_storage() ? problems_of(impl.key_set(), impl) : 0;
}

inline c10::StorageImpl* storage_of(const c10::TensorImpl& impl) { return impl.unsafe_storage().unsafeGetStorageImpl(); }

// Records properties that DLPack does not describe: gradients, contiguity by torch's rules, and the bytes left in the
// storage.
C10_ALWAYS_INLINE void note_state(c10::TensorImpl& impl, TensorView* view) {
    if (!view->strided && !impl.is_contiguous()) view->problems |= kNotContiguous;
    if (impl.autograd_meta() && c10::GradMode::is_enabled() && (impl.requires_grad() || has_forward_gradient(impl)))
        view->problems |= kRequiresGrad;
    if (view->problems) return;
    const size_t itemsize = impl.dtype().itemsize();
    view->bytes = size_t(view->strided ? note_strides(impl.strides().data(), view) : impl.numel()) * itemsize;
    // some training code frees or shrinks a storage that tensors still use
    const size_t needed = impl.storage_offset() * itemsize + view->bytes;
    if (view->bytes && impl.unsafe_storage().nbytes() < needed) view->problems |= kFreed;
    view->storage = storage_of(impl);
}

// Returns the address of a tensor's memory. A copy-on-write tensor gets its own memory here, because the kernel may
// write to it. This is TensorImpl::mutable_data without the checks that note_state has already made.
C10_ALWAYS_INLINE void* data_of(const c10::TensorImpl& impl, const TensorView& view) {
    char* const begin = static_cast<char*>(storage_of(impl)->mutable_data());
    return view.bytes ? begin + impl.storage_offset() * impl.dtype().itemsize() : nullptr;
}

// Reads a tensor completely. Runs no Python code.
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

// Records whether operations must go through a subclass. This may run code from the subclass's metaclass.
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
        // __dlpack__ rejects tensors that require a gradient; note_state handles these below
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

// Makes a tensor for the probe, or returns null and sets an exception. Avoids torch.empty, whose first call takes 0.13
// ms.
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

// Finds which word after a tensor object's header holds its TensorImpl's address. Returns -1 if none does, or if a
// tensor that is read through that word differs from what Python reports.
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
    torch.parameter_type = reinterpret_cast<PyTypeObject*>(attribute(attribute(module, "nn"), "Parameter").get());  // torch keeps both alive
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
