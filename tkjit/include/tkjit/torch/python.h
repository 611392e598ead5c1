// PYBIND11_MODULE, for functions of types that python_values.h converts. tensor_values.h and stable_module.h add tensors.
//
// The headers of pybind11 and torch would take nvcc a minute and a half.
#pragma once

#include "python_classes.h"
#include "registrations.h"

namespace pybind11 {
inline namespace tkjit_stand_in {

/// ``m.doc() = "text"``.
struct Documentation {
    PyObject* module;
    void operator=(const char* text) const {
        check_status(PyModule_SetDocString(module, text));
    }
    void operator=(const std::string& text) const { *this = text.c_str(); }
};
/// Raises an ImportError if the module cannot work in this process.
inline void check_import() {
    try {
        c10::require_torch();
    } catch (const std::exception& error) {
        throw import_error(error.what());
    }
#ifdef TKJIT_RAISES_AT_IMPORT
    if (tkjit::registrations().error.empty()) return;
    tkjit::withdraw_registrations();
    throw import_error("it cannot register its operators: " + tkjit::registrations().error);
#endif
}

class module_ : public object {
public:
    module_() = default;
    module_(object module) : object(std::move(module)) {}
    static module_ import(const char* name) { return check(PyImport_ImportModule(name)); }
    static bool is_type_of(PyObject* given) { return is_instance(given, reinterpret_cast<PyObject*>(&PyModule_Type)); }
    static const char* type_name() { return "module"; }

    template <class F, class... Extra>
    module_& def(const char* name, F function, const Extra&... extra) {
        add_function(ptr(), make_function(name, std::move(function), false, extra...), false);
        return *this;
    }
    module_ def_submodule(const char* name, const char* doc = nullptr) {
        const object own = check(PyObject_GetAttrString(ptr(), "__name__"));
        const std::string whole = std::string(pybind11::utf8(own.ptr())) + "." + name;
        PyObject* const added = PyImport_AddModule(whole.c_str());
        module_ made(check(pybind11::new_reference(added)));
        if (doc) made.doc() = doc;
        check_status(PyObject_SetAttrString(ptr(), name, made.ptr()));
        return made;
    }
    template <class T>
    void add_object(const char* name, const T& value) const {
        attr(name) = value;
    }
    Documentation doc() const { return {ptr()}; }
};
using module = module_;

}  // inline namespace tkjit_stand_in
}  // namespace pybind11
namespace py = pybind11;

namespace torch {
/// torch's ``load_inline`` passes each function through this to translate exceptions. Here, all functions do so anyway.
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
            pybind11::check_import();                                                                             \
            pybind11::module_ module(pybind11::object(pybind11::new_reference(made)));                            \
            tkjit_define(module);                                                                                 \
        } catch (...) {                                                                                           \
            pybind11::translate();                                                                                \
            Py_DECREF(made);                                                                                      \
            return nullptr;                                                                                       \
        }                                                                                                         \
        return made;                                                                                              \
    }                                                                                                             \
    static void tkjit_define([[maybe_unused]] pybind11::module_& variable)
