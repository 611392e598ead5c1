// PYBIND11_MODULE for a source that uses at::Tensor of tensor.h.
#pragma once

#include "python.h"
#include "tensor.h"

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
struct Writer<at::Tensor> {
    static object write(const at::Tensor& tensor) {
        return tensor.defined() ? object_of(tensor.handle()) : object(Py_NewRef(Py_None));
    }
};

}  // inline namespace tkjit_stand_in
}  // namespace pybind11
