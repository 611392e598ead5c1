// Macros that a build with Hugging Face's kernel-builder would generate. They register operators in a namespace whose
// name is itself a macro, and define a Python module without functions, so that `import` loads the library.
#pragma once

#include <Python.h>
#include <torch/csrc/stable/library.h>

#define STABLE_TORCH_LIBRARY_EXPAND(NAME, MODULE) STABLE_TORCH_LIBRARY(NAME, MODULE)
#define STABLE_TORCH_LIBRARY_IMPL_EXPAND(NAME, DEVICE, MODULE) STABLE_TORCH_LIBRARY_IMPL(NAME, DEVICE, MODULE)

#define REGISTER_EXTENSION_STRING(NAME) #NAME
#define REGISTER_EXTENSION_NAMED(NAME)                                                                       \
    PyMODINIT_FUNC PyInit_##NAME() {                                                                         \
        static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, REGISTER_EXTENSION_STRING(NAME), nullptr, \
                                            0, nullptr, nullptr, nullptr, nullptr, nullptr};                 \
        return PyModule_Create(&module);                                                                     \
    }
#define REGISTER_EXTENSION(NAME) REGISTER_EXTENSION_NAMED(NAME)
