// Operators with arguments that torch's C ABI does not pass, numbers of any type and dictionaries: Python registers them.
#pragma once

#include "python.h"
#include "tensor.h"

namespace torch {
inline namespace tkjit_stand_in {

/// A function that is an operator's until this ends.
class PythonImplementation {
public:
    template <class F>
    PythonImplementation(const std::string& space, const char* key, const char* name, F function) {
        at::in_python([&] {
            const auto module = pybind11::module_::import("torch.library");
            library_ = module.attr("Library")(space, "IMPL", key);
            library_.attr("impl")(name, pybind11::python_function(pybind11::make_function(name, function, false).release()));
        });
    }
    PythonImplementation(const PythonImplementation&) = delete;
    ~PythonImplementation() {
        const pybind11::gil_scoped_acquire held;
        const pybind11::object destroyed(PyObject_CallMethod(library_.ptr(), "_destroy", nullptr));
        if (!destroyed.ptr()) PyErr_WriteUnraisable(library_.ptr());
        library_ = pybind11::object();
    }

private:
    pybind11::object library_;
};

}  // inline namespace tkjit_stand_in
}  // namespace torch
