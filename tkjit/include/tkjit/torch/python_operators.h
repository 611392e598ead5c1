// Registrations that go through Python because torch's C ABI does not support them: operators with numbers of any type or
// dictionaries, and operators whose schema is inferred from the function.
#pragma once

#include "python.h"
#include "tensor.h"

namespace torch {
inline namespace tkjit_stand_in {

/// A ``torch.library.Library``. Destroying it removes its registrations.
class PythonLibrary {
public:
    /// Registers the function of an operator.
    template <class F>
    PythonLibrary(const std::string& space, const char* key, const char* name, F function) {
        at::in_python([&] {
            const auto module = pybind11::module_::import("torch.library");
            library_ = module.attr("Library")(space, "IMPL", key);
            library_.attr("impl")(name, pybind11::python_function(pybind11::make_function(name, function, false).release()));
        });
    }
    /// Defines an operator that may write to its arguments, even if its schema does not declare the writes. Inferred
    /// schemas never declare writes, and TorchScript would otherwise drop calls whose results are unused.
    PythonLibrary(const std::string& space, const std::string& schema) {
        at::in_python([&] {
            library_ = pybind11::module_::import("torch.library").attr("Library")(space, "FRAGMENT");
            library_.attr("define")(schema, "CONSERVATIVE");
        });
    }
    PythonLibrary(const PythonLibrary&) = delete;
    ~PythonLibrary() {
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
