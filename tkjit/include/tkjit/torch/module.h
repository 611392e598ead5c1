// PYBIND11_MODULE for a source that uses at::Tensor of tensor.h.
#pragma once

#ifdef TKJIT_TORCH_IN_KERNEL
#include "no_module.h"
#else

#include "python.h"
#include "tensor.h"

namespace at {
inline namespace tkjit_stand_in {

/// torch's global settings, as Python has them.
struct Context {
    bool deterministicAlgorithms() const {
        static PyObject* const ask = pybind11::of_torch("are_deterministic_algorithms_enabled");
        const pybind11::object answer = pybind11::check(PyObject_CallNoArgs(ask));
        return answer.ptr() == Py_True;
    }
};
inline Context globalContext() { return {}; }

}  // inline namespace tkjit_stand_in
}  // namespace at

namespace pybind11 {
inline namespace tkjit_stand_in {

template <class T>
struct Kept<c10::ArrayRef<T>> {
    using type = std::vector<T>;
};
template <>
struct Reader<at::Tensor> {
    static std::string name() { return "Tensor"; }
    static bool read(PyObject* given, at::Tensor& to) {
        const AtenTensorHandle handle = given == Py_None ? nullptr : handle_of(given);
        to = handle ? at::Tensor(handle) : at::Tensor();
        return handle || given == Py_None;  // as torch has it
    }
};
template <>
struct Reader<at::ScalarType> {
    static std::string name() { return "torch.dtype"; }
    static bool read(PyObject* given, at::ScalarType& to) {
        return read_dtype(given, [&](AtenTensorHandle tensor) { to = at::Tensor(tensor).scalar_type(); });
    }
};
template <>
struct Kept<at::Device> {
    struct type {
        int kind = 0, index = -1;
        operator at::Device() const { return {static_cast<at::DeviceType>(kind), static_cast<at::DeviceIndex>(index)}; }
    };
};
template <>
struct Reader<Kept<at::Device>::type> {
    static std::string name() { return "torch.device"; }
    static bool read(PyObject* given, Kept<at::Device>::type& to) { return read_device(given, to.kind, to.index); }
};
template <>
struct Writer<at::Tensor> {
    static object write(const at::Tensor& tensor) {
        return tensor.defined() ? object_of(tensor.handle()) : object(Py_NewRef(Py_None));
    }
};

}  // inline namespace tkjit_stand_in
}  // namespace pybind11

#endif  // TKJIT_TORCH_IN_KERNEL
