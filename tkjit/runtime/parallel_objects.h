// The Python types for calls over several devices: clubs, groups of processes, and the layouts of parallel tensors.
#pragma once

#include "parallel.h"
#include "python_objects.h"

#include <string>
#include <utility>
#include <vector>

// The reason for this pragma is in runtime.cpp.
#pragma GCC push_options
#pragma GCC optimize("Og")

namespace tkjit::runtime {

// ---- clubs ---------------------------------------------------------------------------------------------------------

// Calls a Python function in each device's thread, with the device's index. Returns a list that has an exception or
// None for each device.
inline PyObject* execute_in_python(PyObject* self, PyObject* task) {
    auto& members = value_of<PythonClub>(self);
    std::vector<PyObject*> raised(members.devices.size());
    std::string failure;
    const Club::Part part = [&](int dev_idx) -> const char* {
        const PyGILState_STATE state = PyGILState_Ensure();
        PyObject* const result = PyObject_CallFunction(task, "i", dev_idx);
        if (!result) raised[size_t(dev_idx)] = take_exception();
        Py_XDECREF(result);
        PyGILState_Release(state);
        return nullptr;
    };
    unlocked_step(members.club, part, true, failure);
    if (!failure.empty()) {
        PyErr_SetString(PyExc_RuntimeError, failure.c_str());
        return nullptr;
    }
    PyObject* const all = PyErr_Occurred() ? nullptr : PyList_New(Py_ssize_t(raised.size()));  // Ctrl-C while the caller waited
    for (size_t i = 0; i < raised.size(); ++i) {
        if (all) PyList_SET_ITEM(all, Py_ssize_t(i), raised[i] ? raised[i] : Py_NewRef(Py_None));
        else Py_XDECREF(raised[i]);
    }
    return all;
}

// Closes a club without the GIL, because its threads may need the GIL in order to end. Raises an error during the
// club's own steps.
inline PyObject* close_without_gil(PyObject* self, bool for_good) {
    std::string failure;
    PyThreadState* const state = PyEval_SaveThread();
    try {
        if (for_good) Club::end_all();
        value_of<PythonClub>(self).club.close();
    } catch (const std::exception& error) {
        failure = error.what();
    }
    PyEval_RestoreThread(state);
    if (failure.empty()) Py_RETURN_NONE;
    PyErr_SetString(PyExc_RuntimeError, failure.c_str());
    return nullptr;
}

inline PyObject* close_club(PyObject* self, PyObject*) { return close_without_gil(self, false); }
inline PyObject* close_club_for_good(PyObject* self, PyObject*) { return close_without_gil(self, true); }

inline PyObject* new_club(PyTypeObject* type, PyObject* args, PyObject*) {
    const char* kind;
    PyObject *numbers, *streams, *around;
    if (!PyArg_ParseTuple(args, "sO!O!O", &kind, &PyList_Type, &numbers, &PyList_Type, &streams, &around)) return nullptr;
    return answer([&] {
        std::vector<int> devices;
        std::vector<Owned> given_streams;
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(numbers); ++i) devices.push_back(int(integer_of(PyList_GET_ITEM(numbers, i))));
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(streams); ++i) given_streams.push_back(borrowed(PyList_GET_ITEM(streams, i)));
        return make_holder<PythonClub>(type, std::string(kind), std::move(devices), std::move(given_streams), borrowed(around));
    });
}

inline PyObject* make_club_type() {
    static PyMethodDef methods[] = {
        {"execute", execute_in_python, METH_O, "Call a function with each device's index in its thread; return the exceptions, or None for success."},
        {"close", close_club, METH_NOARGS, "End the threads."},
        {"close_for_good", close_club_for_good, METH_NOARGS, "End the threads, and let no club begin another step."},
        {nullptr, nullptr, 0, nullptr},
    };
    static PyType_Slot slots[] = {
        {Py_tp_new, slot(new_club)}, {Py_tp_dealloc, slot(free_holder<PythonClub>)}, {Py_tp_methods, methods},
        {Py_tp_doc, const_cast<char*>("A group of threads, one for each device.")}, {0, nullptr},
    };
    static PyType_Spec spec = {"tkjit.runtime.Club", sizeof(Holder<PythonClub>), 0, Py_TPFLAGS_DEFAULT, slots};
    return PyType_FromSpec(&spec);
}

// ---- processes and layouts ----------------------------------------------------------------------------------------

inline PyObject* new_peers(PyTypeObject* type, PyObject*, PyObject*) {
    return answer([&] { return make_holder<Peers>(type); });
}

inline PyObject* give_up_peers(PyObject* self, PyObject* reason) {
    return answer([&] {
        value_of<Peers>(self).give_up(text_of(reason));
        return Py_NewRef(Py_None);
    });
}

inline PyObject* device_of_peers(PyObject* self, void*) { return PyLong_FromLong(value_of<Peers>(self).device.load()); }

inline PyObject* make_peers_type() {
    static PyMethodDef methods[] = {
        {"give_up", give_up_peers, METH_O, "Abort every launch that waits for the processes, with this reason."},
        {nullptr, nullptr, 0, nullptr},
    };
    static PyGetSetDef properties[] = {
        {"device", device_of_peers, nullptr, "The GPU of the last launch that may wait for the processes, or -1.", nullptr},
        {nullptr, nullptr, nullptr, nullptr, nullptr},
    };
    static PyType_Slot slots[] = {
        {Py_tp_new, slot(new_peers)}, {Py_tp_dealloc, slot(free_holder<Peers>)}, {Py_tp_methods, methods}, {Py_tp_getset, properties},
        {Py_tp_doc, const_cast<char*>("The processes of a group.")}, {0, nullptr},
    };
    static PyType_Spec spec = {"tkjit.runtime.Peers", sizeof(Holder<Peers>), 0, Py_TPFLAGS_DEFAULT, slots};
    return PyType_FromSpec(&spec);
}

inline PyObject* new_layout(PyTypeObject* type, PyObject* args, PyObject*) {
    PyObject *addresses, *tensor, *parts, *peers;
    unsigned long long multicast;
    int dev_idx;
    if (!PyArg_ParseTuple(args, "O!KiOOO", &PyList_Type, &addresses, &multicast, &dev_idx, &tensor, &parts, &peers)) return nullptr;
    return answer([&] {
        if (peers != Py_None && reinterpret_cast<PyObject*>(Py_TYPE(peers)) != peers_type) raise_type_error("expected Peers or None");
        std::vector<uintptr_t> pointers;
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(addresses); ++i) pointers.push_back(unsigned_of(PyList_GET_ITEM(addresses, i)));
        return make_holder<ParallelLayout>(type, std::move(pointers), uintptr_t(multicast), dev_idx, borrowed(tensor), borrowed(parts),
                                           peers == Py_None ? Owned() : borrowed(peers));
    });
}

inline PyObject* pointers_of_layout(PyObject* self, void*) {
    return answer([&] {
        const std::vector<uintptr_t>& pointers = value_of<ParallelLayout>(self).pointers;
        Owned all = checked(PyList_New(Py_ssize_t(pointers.size())));
        for (size_t i = 0; i < pointers.size(); ++i)
            PyList_SET_ITEM(all.get(), Py_ssize_t(i), checked(PyLong_FromUnsignedLongLong(pointers[i])).release());
        return all.release();
    });
}
inline PyObject* multicast_of_layout(PyObject* self, void*) {
    return PyLong_FromUnsignedLongLong(value_of<ParallelLayout>(self).multicast);
}
inline PyObject* dev_idx_of_layout(PyObject* self, void*) { return PyLong_FromLong(value_of<ParallelLayout>(self).dev_idx); }

inline PyObject* make_layout_type() {
    static PyGetSetDef properties[] = {
        {"pointers", pointers_of_layout, nullptr, "Each device's pointer to its part.", nullptr},
        {"multicast", multicast_of_layout, nullptr, "The multicast pointer, or 0.", nullptr},
        {"dev_idx", dev_idx_of_layout, nullptr, "The index of this process's part.", nullptr},
        {nullptr, nullptr, nullptr, nullptr, nullptr},
    };
    static PyType_Slot slots[] = {
        {Py_tp_new, slot(new_layout)}, {Py_tp_dealloc, slot(free_holder<ParallelLayout>)}, {Py_tp_getset, properties},
        {Py_tp_doc, const_cast<char*>("The addresses of a parallel tensor's parts.")}, {0, nullptr},
    };
    static PyType_Spec spec = {"tkjit.runtime.ParallelLayout", sizeof(Holder<ParallelLayout>), 0, Py_TPFLAGS_DEFAULT, slots};
    return PyType_FromSpec(&spec);
}

}  // namespace tkjit::runtime

#pragma GCC pop_options
