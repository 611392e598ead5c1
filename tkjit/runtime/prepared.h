// The object that `kernel.prepare(...)` returns. Launching it checks only that the tensors have not changed.
#pragma once

#include "glue_calls.h"
#include "interfaces.h"
#include "refusals.h"
#include "table.h"

#include <structmember.h>

#include <memory>
#include <vector>

namespace tkjit::runtime {

struct PreparedLaunch {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject* kernel;  // a Dispatcher
    PyObject* args;    // the call's arguments, kept alive
    PyObject* kwargs;
    PyObject* result;  // the value that each launch returns
    Prepared* prepared;
};

inline PyObject* prepared_type = nullptr;

inline PyObject* launch_prepared(PyObject* object, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
    auto* const self = reinterpret_cast<PreparedLaunch*>(object);
    if (PyVectorcall_NARGS(nargsf) != 0) {
        PyErr_SetString(argument_error, "a prepared launch takes no positional arguments; pass new numbers by name");
        return nullptr;
    }
    if (!self->args) {
        PyErr_SetString(argument_error, "the prepared launch is being garbage-collected");
        return nullptr;
    }
    PyObject* const names = kwnames && PyTuple_GET_SIZE(kwnames) ? kwnames : nullptr;
    return launch_again(self->kernel, *self->prepared, args, names);
}

inline int traverse_prepared(PyObject* object, visitproc visit, void* arg) {
    auto* const self = reinterpret_cast<PreparedLaunch*>(object);
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->kernel);
    Py_VISIT(self->args);
    Py_VISIT(self->kwargs);
    Py_VISIT(self->result);
    if (self->prepared) {
        Py_VISIT(self->prepared->written);
        Py_VISIT(self->prepared->held);
        Py_VISIT(self->prepared->result);
    }
    return 0;
}

inline int clear_prepared(PyObject* object) {
    auto* const self = reinterpret_cast<PreparedLaunch*>(object);
    Py_CLEAR(self->args);
    Py_CLEAR(self->kwargs);
    Py_CLEAR(self->result);
    if (self->prepared) {
        Py_CLEAR(self->prepared->written);
        Py_CLEAR(self->prepared->held);
        Py_CLEAR(self->prepared->result);
    }
    return 0;
}

inline void free_prepared(PyObject* object) {
    auto* const self = reinterpret_cast<PreparedLaunch*>(object);
    PyTypeObject* const type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    delete self->prepared;
    for (PyObject* const held : {self->kernel, self->args, self->kwargs, self->result}) Py_XDECREF(held);
    type->tp_free(object);
    Py_DECREF(type);
}

// Returns each launch in the form that a C program would make it: (launcher, arguments, device, stream).
inline PyObject* launches_of_prepared(PyObject* object, void*) {
    const Prepared& prepared = *reinterpret_cast<PreparedLaunch*>(object)->prepared;
    PyObject* const listed = PyTuple_New(prepared.count);
    for (int i = 0; listed && i < prepared.count; ++i) {
        const Step& step = prepared.steps[i];
        const auto address = [](const void* pointer) { return static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(pointer)); };
        PyObject* const one =
            Py_BuildValue("KKiK", address(step.launcher), address(step.args), int(step.device), address(step.stream));
        if (one) PyTuple_SET_ITEM(listed, i, one);
        else return Py_DECREF(listed), nullptr;
    }
    return listed;
}

inline PyObject* make_prepared_type() {
    static PyGetSetDef properties[] = {
        {"launches", launches_of_prepared, nullptr,
         "Each launch as a C program makes it (tkjit/arg.h): (TkjitLauncher*, TkjitArg*, device, stream).", nullptr},
        {nullptr, nullptr, nullptr, nullptr, nullptr},
    };
    static PyMemberDef members[] = {
        {"__vectorcalloffset__", T_PYSSIZET, offsetof(PreparedLaunch, vectorcall), READONLY, nullptr},
        {"kernel", T_OBJECT, offsetof(PreparedLaunch, kernel), READONLY, "The kernel."},
        {"result", T_OBJECT, offsetof(PreparedLaunch, result), READONLY, "What each launch returns. The outputs are the same each time."},
        {nullptr, 0, 0, 0, nullptr},
    };
    static PyType_Slot slots[] = {
        {Py_tp_dealloc, reinterpret_cast<void*>(free_prepared)},
        {Py_tp_traverse, reinterpret_cast<void*>(traverse_prepared)},
        {Py_tp_clear, reinterpret_cast<void*>(clear_prepared)},
        {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
        {Py_tp_members, members},
        {Py_tp_getset, properties},
        {Py_tp_doc, const_cast<char*>("A call whose arguments were parsed and checked once. Calling it launches; it takes new numbers by name.")},
        {0, nullptr},
    };
    static PyType_Spec spec = {"tkjit.PreparedLaunch", sizeof(PreparedLaunch), 0,
                               Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                               slots};
    return prepared_type = PyType_FromSpec(&spec);
}

// Stores a call's arguments in vectorcall form, borrowed from the tuple and the dictionary.
struct VectorArguments {
    std::vector<PyObject*> all;
    Owned names;

    VectorArguments(PyObject* args, PyObject* kwargs) {
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); ++i) all.push_back(PyTuple_GET_ITEM(args, i));
        if (!PyDict_GET_SIZE(kwargs)) return;
        names = checked(PyTuple_New(PyDict_GET_SIZE(kwargs)));
        PyObject *name, *value;
        Py_ssize_t count = 0;
        for (Py_ssize_t at = 0; PyDict_Next(kwargs, &at, &name, &value);) {
            all.push_back(value);
            PyTuple_SET_ITEM(names.get(), count++, Py_NewRef(name));
        }
    }
};

inline PyObject* prepare(PyObject*, PyObject* given) {
    PyObject *dispatcher, *args, *kwargs;
    if (!PyArg_ParseTuple(given, "OO!O!", &dispatcher, &PyTuple_Type, &args, &PyDict_Type, &kwargs)) return nullptr;
    return answer([&] {
        const VectorArguments vector(args, kwargs);
        auto prepared = std::make_unique<Prepared>();
        if (!prepare_call(dispatcher, vector.all.data(), size_t(PyTuple_GET_SIZE(args)), vector.names.get(), prepared.get()))
            throw Raised{};
        for (const TensorView* view = prepared->tensors; view; view = view->before)
            if (view->foreign && (view->device_type != DeviceType::cpu || !has(object_of(*view), "__dlpack__"))) {
                refuse_object("prepare", view->name, object_of(*view), "a tensor, or an array on the cpu whose __dlpack__ holds its memory");
                throw Raised{};
            }
        auto* const type = reinterpret_cast<PyTypeObject*>(prepared_type);
        PyObject* const made = checked(type->tp_alloc(type, 0)).release();
        auto* const self = reinterpret_cast<PreparedLaunch*>(made);
        self->vectorcall = launch_prepared;
        self->kernel = Py_NewRef(dispatcher);
        self->args = Py_NewRef(args);
        self->kwargs = Py_NewRef(kwargs);
        self->result = Py_NewRef(prepared->result);
        self->prepared = prepared.release();
        return made;
    });
}

// Returns the arguments of a prepared call's launches, in the same form as `collect`.
inline PyObject* show_prepared(PyObject*, PyObject* object) {
    if (!PyObject_TypeCheck(object, reinterpret_cast<PyTypeObject*>(prepared_type))) {
        PyErr_SetString(PyExc_TypeError, "expected a prepared launch");
        return nullptr;
    }
    const auto* const self = reinterpret_cast<PreparedLaunch*>(object);
    const Prepared& prepared = *self->prepared;
    return shown(prepared, Py_NewRef(prepared.result), contents_of(self->kernel).kinds[prepared.overload]);
}

}  // namespace tkjit::runtime
