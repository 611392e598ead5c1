// Opens launchers that consist of a cubin and a launch program. Compiled once per environment, when the first of them is
// opened. A launcher is never closed, because a kernel may outlive its Python object.
#include "launch_program.h"
#include "python_objects.h"
#include "table.h"

#include <stdexcept>
#include <string>
#include <vector>

namespace tkjit::runtime {
namespace {

std::vector<int64_t> integers_of(PyObject* sequence) {
    std::vector<int64_t> integers(size_t(PySequence_Fast_GET_SIZE(sequence)));
    for (size_t i = 0; i < integers.size(); ++i) {
        integers[i] = PyLong_AsLongLong(PySequence_Fast_GET_ITEM(sequence, Py_ssize_t(i)));
        if (integers[i] == -1 && PyErr_Occurred()) throw Raised{};
    }
    return integers;
}

// Takes (cubin, the kernel's symbol, the cubin's CUDA version, synchronous, words, texts, the parameters' offsets, their
// bytes, the number of arguments).
PyObject* open_program(PyObject*, PyObject* args) {
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
PyObject* operation_names() {
    PyObject* const names = PyTuple_New(Py_ssize_t(Operation::count));
    for (Py_ssize_t i = 0; names && i < PyTuple_GET_SIZE(names); ++i) {
        PyObject* const name = PyUnicode_FromString(operation_shapes[i].name);
        if (!name) return Py_DECREF(names), nullptr;
        PyTuple_SET_ITEM(names, i, name);
    }
    return names;
}

PyMethodDef functions[] = {
    {"open_program", open_program, METH_VARARGS, "Open a cubin with its launch program, and return the launcher's address."},
    {nullptr, nullptr, 0, nullptr},
};

int add_operations(PyObject* module) {
    PyObject* const names = operation_names();
    return names && PyModule_AddObject(module, "operations", names) == 0 ? 0 : -1;
}

PyModuleDef_Slot slots[] = {
    {Py_mod_exec, reinterpret_cast<void*>(add_operations)},
    TKJIT_NEEDS_NO_GIL
    {0, nullptr},
};
PyModuleDef definition = {PyModuleDef_HEAD_INIT, "tkjit_launch_programs", nullptr, 0, functions, slots, nullptr, nullptr, nullptr};

}  // namespace
}  // namespace tkjit::runtime

TKJIT_MODULE(TORCH_EXTENSION_NAME, tkjit::runtime::definition)
