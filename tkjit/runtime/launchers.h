// Opens launchers: shared objects, and cubins with launch programs. They are never closed, because a kernel may outlive its
// Python object.
#pragma once

#include "launch_program.h"
#include "python_objects.h"
#include "table.h"

#include <dlfcn.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace tkjit::runtime {

// A launcher in a shared object.
struct CompiledLauncher : TkjitLauncher {
    explicit CompiledLauncher(TkjitLaunch function) : TkjitLauncher{call_function}, function(function) {}

    static const char* call_function(const TkjitLauncher* self, const TkjitArg* args, int32_t device, void* stream) {
        return static_cast<const CompiledLauncher*>(self)->function(args, device, stream);
    }

    TkjitLaunch function;
};

inline std::vector<int64_t> integers_of(PyObject* sequence) {
    std::vector<int64_t> integers(size_t(PySequence_Fast_GET_SIZE(sequence)));
    for (size_t i = 0; i < integers.size(); ++i) {
        integers[i] = PyLong_AsLongLong(PySequence_Fast_GET_ITEM(sequence, Py_ssize_t(i)));
        if (integers[i] == -1 && PyErr_Occurred()) throw Raised{};
    }
    return integers;
}

// Takes (cubin, the kernel's symbol, the cubin's CUDA version, synchronous, words, texts, the parameters' offsets, their
// bytes, the number of arguments).
inline PyObject* open_program(PyObject*, PyObject* args) {
    const char* symbol;
    int cuda, synchronous;
    PyObject *cubin, *words, *texts, *parameters;
    long long bytes, arguments;
    if (!PyArg_ParseTuple(args, "SsipO!O!O!LL", &cubin, &symbol, &cuda, &synchronous, &PyList_Type, &words, &PyList_Type, &texts,
                          &PyList_Type, &parameters, &bytes, &arguments))
        return nullptr;
    return answer([&]() -> PyObject* {
        std::vector<std::string> messages;
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(texts); ++i) messages.push_back(text_of(PyList_GET_ITEM(texts, i)));
        driver::CubinKernel kernel({PyBytes_AS_STRING(cubin), size_t(PyBytes_GET_SIZE(cubin))}, symbol, cuda, synchronous);
        try {
            return PyLong_FromVoidPtr(static_cast<TkjitLauncher*>(new ProgramLauncher(
                std::move(kernel), integers_of(words), std::move(messages), integers_of(parameters), bytes, arguments)));
        } catch (const std::invalid_argument& error) {
            return PyErr_SetString(PyExc_ImportError, error.what()), nullptr;
        }
    });
}

// The names of the operations in launch programs, in the order of their numbers.
inline PyObject* operation_names() {
    PyObject* const names = PyTuple_New(Py_ssize_t(Operation::count));
    for (Py_ssize_t i = 0; names && i < PyTuple_GET_SIZE(names); ++i) {
        PyObject* const name = PyUnicode_FromString(operation_shapes[i].name);
        if (!name) return Py_DECREF(names), nullptr;
        PyTuple_SET_ITEM(names, i, name);
    }
    return names;
}

}  // namespace tkjit::runtime
