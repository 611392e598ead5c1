// PYBIND11_MODULE, for functions of what python_values.h converts; tensor_values.h and stable_module.h add tensors.
//
// pybind11's and torch's own headers would take nvcc a minute and a half.
#pragma once

#include "python_classes.h"

namespace pybind11 {
inline namespace tkjit_stand_in {

/// ``m.doc() = "text"``.
struct Documentation {
    PyObject* module;
    void operator=(const char* text) const {
        if (PyModule_SetDocString(module, text) != 0) throw error_already_set();
    }
    void operator=(const std::string& text) const { *this = text.c_str(); }
};
/// ``m.attr("name") = value``.
struct Attribute {
    PyObject* owner;
    std::string name;
    template <class T>
    void operator=(const T& value) const {
        if (PyObject_SetAttrString(owner, name.c_str(), cast(value).ptr()) != 0) throw error_already_set();
    }
};

class module_ {
public:
    explicit module_(PyObject* module) : module_pointer_(module) {}
    PyObject* ptr() const { return module_pointer_; }

    template <class F, class... Extra>
    module_& def(const char* name, F function, const Extra&... extra) {
        add_function(ptr(), make_function(name, std::move(function), false, extra...), false);
        return *this;
    }
    module_ def_submodule(const char* name, const char* doc = nullptr) {
        const object own = check(PyObject_GetAttrString(ptr(), "__name__"));
        const std::string whole = std::string(pybind11::utf8(own.ptr())) + "." + name;
        module_ made(PyImport_AddModule(whole.c_str()));
        if (!made.ptr()) throw error_already_set();
        if (doc) made.doc() = doc;
        if (PyObject_SetAttrString(ptr(), name, made.ptr()) != 0) throw error_already_set();
        return made;
    }
    Attribute attr(const char* name) const { return {module_pointer_, name}; }
    Documentation doc() const { return {module_pointer_}; }

private:
    PyObject* module_pointer_;
};
using module = module_;

}  // inline namespace tkjit_stand_in
}  // namespace pybind11
namespace py = pybind11;

namespace torch {
/// torch's ``load_inline`` writes it around each function; exceptions become Python's without it.
template <class F>
F wrap_pybind_function(F function) {
    return function;
}
}  // namespace torch

#define TKJIT_TORCH_JOIN(a, b) a##b
#define TKJIT_TORCH_INIT(name) TKJIT_TORCH_JOIN(PyInit_, name)
#define TKJIT_TORCH_TEXT_OF(name) #name
#define TKJIT_TORCH_TEXT(name) TKJIT_TORCH_TEXT_OF(name)
#define PYBIND11_MODULE(name, variable)                                                                            \
    static void tkjit_define(pybind11::module_& variable);                                                        \
    PyMODINIT_FUNC TKJIT_TORCH_INIT(name)() {                                                                      \
        static PyModuleDef definition = [] {                                                                       \
            PyModuleDef made{};                                                                                    \
            made.m_base = PyModuleDef_HEAD_INIT;                                                                   \
            made.m_name = TKJIT_TORCH_TEXT(name);                                                                  \
            made.m_size = -1;                                                                                      \
            return made;                                                                                           \
        }();                                                                                                       \
        PyObject* const made = PyModule_Create(&definition);                                                      \
        if (!made) return nullptr;                                                                                \
        try {                                                                                                     \
            pybind11::module_ module(made);                                                                       \
            tkjit_define(module);                                                                                 \
        } catch (...) {                                                                                           \
            pybind11::translate();                                                                                \
            Py_DECREF(made);                                                                                      \
            return nullptr;                                                                                       \
        }                                                                                                         \
        return made;                                                                                              \
    }                                                                                                             \
    static void tkjit_define([[maybe_unused]] pybind11::module_& variable)
