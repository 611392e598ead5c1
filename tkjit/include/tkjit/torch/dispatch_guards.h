// Keys of torch's dispatcher, guards that exclude some of them until the end of their scope, and casts for autocast.
#pragma once

#include "tensor.h"

namespace c10 {
inline namespace tkjit_stand_in {

#define TKJIT_TORCH_KEYS(KEY)                                                                                    \
    KEY(CPU) KEY(CUDA) KEY(Meta) KEY(QuantizedCPU) KEY(CompositeImplicitAutograd) KEY(CompositeExplicitAutograd) \
    KEY(Autograd) KEY(AutogradCPU) KEY(AutogradCUDA) KEY(ADInplaceOrView) KEY(AutocastCPU) KEY(AutocastCUDA)
#define TKJIT_TORCH_KEY(key) key,
#define TKJIT_TORCH_NAME_OF_KEY(key) #key,
enum class DispatchKey { TKJIT_TORCH_KEYS(TKJIT_TORCH_KEY) Autocast = AutocastCUDA };

inline const char* name_of(DispatchKey key) {
    static const char* const names[] = {TKJIT_TORCH_KEYS(TKJIT_TORCH_NAME_OF_KEY)};
    return names[int(key)];
}
#undef TKJIT_TORCH_NAME_OF_KEY
#undef TKJIT_TORCH_KEY
#undef TKJIT_TORCH_KEYS
inline const char* name_of(DeviceType type) {
    return name_of(type == kCUDA ? DispatchKey::CUDA : type == kCPU ? DispatchKey::CPU : DispatchKey::Meta);
}

}  // inline namespace tkjit_stand_in
}  // namespace c10

namespace at {
inline namespace tkjit_stand_in {

using c10::DispatchKey;

#ifdef TKJIT_TORCH_IN_KERNEL
struct DispatchGuard {
    explicit DispatchGuard(const char*) {}
    DispatchGuard(const char*, DispatchKey) {}
};
#else
/// One of torch's guards, entered through its Python context manager.
class DispatchGuard {
public:
    explicit DispatchGuard(const char* name) {
        in_python([&] { enter(pybind11::check(PyImport_ImportModule("torch._C")).attr(name)()); });
    }
    DispatchGuard(const char* name, DispatchKey key) {
        in_python([&] {
            const auto torch = pybind11::check(PyImport_ImportModule("torch._C"));
            const auto known = torch.attr("DispatchKey").get().attr(c10::name_of(key)).get();
            enter(torch.attr(name)(torch.attr("DispatchKeySet")(known)));
        });
    }
    DispatchGuard(const DispatchGuard&) = delete;
    ~DispatchGuard() {
        const pybind11::gil_scoped_acquire held;
        const pybind11::object guard(guard_);
        const pybind11::object left(PyObject_CallMethod(guard_, "__exit__", "OOO", Py_None, Py_None, Py_None));
        if (!left.ptr()) PyErr_WriteUnraisable(guard_);
    }

private:
    void enter(pybind11::object guard) {
        guard.attr("__enter__")();
        guard_ = guard.release();
    }

    PyObject* guard_ = nullptr;
};
#endif

/// Dispatches operators below autograd.
struct AutoDispatchBelowAutograd : DispatchGuard {
    AutoDispatchBelowAutograd() : DispatchGuard("_AutoDispatchBelowAutograd") {}
};
using AutoNonVariableTypeMode = AutoDispatchBelowAutograd;
/// Dispatches operators below ADInplaceOrView as well, which tracks the versions of tensors.
struct AutoDispatchBelowADInplaceOrView : DispatchGuard {
    AutoDispatchBelowADInplaceOrView() : DispatchGuard("_AutoDispatchBelowADInplaceOrView") {}
};

namespace autocast {
/// Casts a floating-point tensor on the device. Returns doubles and other tensors unchanged. Nothing is cached.
inline Tensor cached_cast(c10::ScalarType to, const Tensor& x, c10::DeviceType device = c10::kCUDA) {
    const bool is_eligible = x.defined() && x.is_floating_point() && x.scalar_type() != kDouble && x.device().type() == device;
    return is_eligible && x.scalar_type() != to ? x.toType(to) : x;
}
inline std::optional<Tensor> cached_cast(c10::ScalarType to, const std::optional<Tensor>& x, c10::DeviceType device = c10::kCUDA) {
    return x ? std::optional<Tensor>(cached_cast(to, *x, device)) : std::nullopt;
}
}  // namespace autocast

}  // inline namespace tkjit_stand_in
}  // namespace at

namespace c10 {
namespace impl {
inline namespace tkjit_stand_in {

struct ExcludeDispatchKeyGuard : at::DispatchGuard {
    explicit ExcludeDispatchKeyGuard(DispatchKey key) : DispatchGuard("ExcludeDispatchKeyGuard", key) {}
};

}  // inline namespace tkjit_stand_in
}  // namespace impl
}  // namespace c10

#define TORCH_SELECTIVE_NAME(name) name
#define TORCH_SELECTIVE_SCHEMA(schema) schema
#define C10_LOG_API_USAGE_ONCE(...) static_assert(true);  // a declaration with a semicolon, like torch's
