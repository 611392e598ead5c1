// PYBIND11_MODULE for a source that uses torch::stable::Tensor, of torch's own headers.
#pragma once

#include <torch/csrc/stable/tensor.h>

#include "python.h"

#include <string_view>

namespace pybind11 {
inline namespace tkjit_stand_in {

template <class T>
struct Kept<torch::headeronly::HeaderOnlyArrayRef<T>> {
    using type = std::vector<T>;
};
template <>
struct Kept<std::string_view> {
    using type = std::string;
};
template <>
struct Reader<torch::stable::Tensor> {
    static std::string name() { return "Tensor"; }
    static bool read(PyObject* given, torch::stable::Tensor& to) {
        const AtenTensorHandle handle = handle_of(given);
        if (handle) to = torch::stable::Tensor(handle);
        return handle != nullptr;
    }
};
template <>
struct Writer<torch::stable::Tensor> {
    static object write(const torch::stable::Tensor& tensor) {
        return tensor.defined() ? object_of(tensor.get()) : object(Py_NewRef(Py_None));
    }
};

/// A dtype's number is that of the tensors that have it.
template <>
struct Reader<torch::headeronly::ScalarType> {
    static std::string name() { return "torch.dtype"; }
    static bool read(PyObject* given, torch::headeronly::ScalarType& to) {
        static PyObject* const type = [] {
            const object torch = check(PyImport_ImportModule("torch"));
            return check(PyObject_GetAttrString(torch.ptr(), "dtype")).release();
        }();
        const int is_dtype = PyObject_IsInstance(given, type);
        if (is_dtype < 0) throw error_already_set();
        if (!is_dtype) return false;
        const object torch = check(PyImport_ImportModule("torch"));
        const object none = check(PyTuple_New(0));
        const object empty = check(PyObject_GetAttrString(torch.ptr(), "empty"));
        const object arguments = check(Py_BuildValue("((i))", 0));
        const object options = check(Py_BuildValue("{s:O}", "dtype", given));
        const object tensor = check(PyObject_Call(empty.ptr(), arguments.ptr(), options.ptr()));
        to = torch::stable::Tensor(handle_of(tensor.ptr())).scalar_type();
        return true;
    }
};

}  // inline namespace tkjit_stand_in
}  // namespace pybind11
