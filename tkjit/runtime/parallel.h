// Finds the club for a call and the layouts of parallel tensors, and executes a step. parallel_objects.h defines their
// Python types.
#pragma once

#include "club.h"
#include "guard_bytes.h"
#include "refusals.h"
#include "storages.h"
#include "table.h"

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

// The reason for this pragma is in runtime.cpp.
#pragma GCC push_options
#pragma GCC optimize("Og")

namespace tkjit::runtime {

// ---- lost processes ------------------------------------------------------------------------------------------------

// The processes in a group. All parallel tensors of the group share this object.
struct Peers {
    std::atomic<const char*> lost{nullptr};  // why launches that wait for these processes must abort, or null
    std::atomic<int> device{-1};             // the GPU of the last launch that may wait for them, or -1

    void give_up(const std::string& reason) {
        const char* none = nullptr;
        char* const text = strdup(reason.c_str());  // never freed, because launches may still read it
        if (!lost.compare_exchange_strong(none, text)) free(text);
    }
};

// The processes that this thread's launch may wait for, or null.
inline thread_local const Peers* waits_for = nullptr;

inline const char* given_up() { return waits_for ? waits_for->lost.load() : nullptr; }

inline const char* waits_on(void* peers, int32_t device) {
    auto* const those = static_cast<Peers*>(peers);
    waits_for = those;
    if (!those) return nullptr;
    if (device >= 0) those->device.store(device);
    return those->lost.load();
}

// ---- a parallel tensor's layout ------------------------------------------------------------------------------------

// Each device's part of a parallel tensor, as addresses in this process. Keeps the memory mapped.
struct ParallelLayout {
    std::vector<uintptr_t> pointers;
    uintptr_t multicast;
    int dev_idx;
    Owned tensor;  // this process's part
    Owned parts;   // keeps the other parts mapped
    Owned peers;   // a Peers, or empty
};

inline PyObject *parallel_layout_type = nullptr, *peers_type = nullptr;

inline bool parallel(PyObject* object, ParallelView* view) {
    static PyObject* const name = PyUnicode_InternFromString("_layout");
    PyObject* const held = PyObject_GetAttr(object, name);
    if (!held) {
        if (PyErr_ExceptionMatches(PyExc_AttributeError)) PyErr_Clear();
        return false;
    }
    view->owner = held;
    const bool is_layout = reinterpret_cast<PyObject*>(Py_TYPE(held)) == parallel_layout_type;
    if (is_layout) {
        const auto& layout = value_of<ParallelLayout>(held);
        view->tensor = layout.tensor.get();
        view->layout.data = reinterpret_cast<void* const*>(layout.pointers.data());
        view->layout.multicast = reinterpret_cast<void*>(layout.multicast);
        view->layout.count = int32_t(layout.pointers.size());
        view->layout.dev_idx = layout.dev_idx;
        view->peers = layout.peers ? &value_of<Peers>(layout.peers.get()) : nullptr;
    }
    return is_layout;
}

// ---- clubs ---------------------------------------------------------------------------------------------------------

// A club and its devices, as a Python object.
struct PythonClub {
    PythonClub(std::string type, std::vector<int> devices, std::vector<Owned> streams, Owned around)
        : type(std::move(type)),
          devices(std::move(devices)),
          streams(std::move(streams)),
          around(std::move(around)),
          club(int(this->devices.size())) {}

    const std::string type;  // "cpu" or "cuda"
    const std::vector<int> devices;
    const std::vector<Owned> streams;  // None for a device's current stream
    const Owned around;                // called with True before each step and with False after it; or None
    Club club;

    std::string text() const {
        if (type == "cpu") return std::to_string(devices.size()) + " x cpu";
        std::string all;
        for (const int device : devices) all += (all.empty() ? "cuda:" : ", cuda:") + std::to_string(device);
        return all;
    }
};

inline PyObject* python_club_type = nullptr;
inline PyObject* find_club = nullptr;  // tkjit.parallel.club.club_for, which has the process's default clubs

inline PyObject* club(const char* kernel, PyObject* given, DeviceType type, const int32_t* devices, int count) {
    try {
        const bool on_cpu = type == DeviceType::cpu;
        Owned found = given ? borrowed(given) : Owned();
        if (!given) {
            if (!find_club) find_club = attribute(import_module("tkjit.parallel.club"), "club_for").release();
            const Owned wanted = checked(PyTuple_New(count));
            for (int i = 0; i < count; ++i)
                PyTuple_SET_ITEM(wanted.get(), i, checked(PyLong_FromLong(on_cpu ? i : devices[i])).release());
            found = call(find_club, "sO", on_cpu ? "cpu" : "cuda", wanted.get());
        }
        Owned held = has(found.get(), "_club") ? attribute(found, "_club") : Owned();
        if (!held || reinterpret_cast<PyObject*>(Py_TYPE(held.get())) != python_club_type) {
            refuse_object(kernel, "club", found.get(), "a tkjit.Club");
            return nullptr;
        }
        const auto& members = value_of<PythonClub>(held.get());
        bool fits = members.devices.size() == size_t(count) && (members.type == "cpu") == on_cpu;
        for (int i = 0; fits && !on_cpu && i < count; ++i) fits = members.devices[size_t(i)] == devices[i];
        if (!fits) {
            PyErr_Format(argument_error, "%s: the club's devices are %s; the tensors are on other devices, or their number differs", kernel,
                         members.text().c_str());
            return nullptr;
        }
        return held.release();
    } catch (const Raised&) {
        return nullptr;
    }
}

inline PyObject* club_stream(PyObject* club, int dev_idx) {
    PyObject* const stream = value_of<PythonClub>(club).streams[size_t(dev_idx)].get();
    return stream == Py_None ? nullptr : stream;
}

// Returns one device's error, with its index in the club. If there are several, returns the first that no other error
// caused.
inline const std::string* first_error(const std::vector<std::string>& errors, size_t& where) {
    const std::string* found = nullptr;
    for (size_t i = 0; i < errors.size(); ++i) {
        if (errors[i].empty()) continue;
        const bool consequence = errors[i].rfind("interrupted", 0) == 0;
        if (found && (consequence || found->rfind("interrupted", 0) != 0)) continue;
        found = &errors[i];
        where = i;
    }
    return found;
}

// Describes the other devices in a deadlock: "device 0 has ended, devices 2 and 3 wait as well".
inline std::string others_of_deadlock(const std::vector<std::string>& errors, size_t where) {
    const auto devices = [&](bool ended, const char* one, const char* several) {
        std::vector<size_t> those;
        for (size_t i = 0; i < errors.size(); ++i)
            if (i != where && errors[i].empty() == ended) those.push_back(i);
        if (those.empty()) return std::string();
        std::string text = those.size() > 1 ? "devices " : "device ";
        for (size_t i = 0; i < those.size(); ++i)
            text += (i == 0 ? "" : i + 1 == those.size() ? " and " : ", ") + std::to_string(those[i]);
        return text + (those.size() > 1 ? several : one);
    };
    const std::string ended = devices(true, " has ended", " have ended"), waiting = devices(false, " waits as well", " wait as well");
    return (ended.empty() && waiting.empty() ? "" : "\n  ") + ended + (ended.empty() || waiting.empty() ? "" : ", ") + waiting;
}

// Returns whether the calling thread has an exception to raise, for example after Ctrl-C.
inline bool is_interrupted() {
    const PyGILState_STATE state = PyGILState_Ensure();
    const bool raises = PyErr_Occurred() || PyErr_CheckSignals() != 0;
    PyGILState_Release(state);
    return raises;
}

// Executes a step without the GIL. The GIL is never reacquired in a destructor: while the interpreter shuts down, a
// daemon thread that asks for the GIL is ended right there, and inside a destructor this would abort the process.
inline std::vector<std::string> unlocked_step(Club& club, const Club::Part& part, bool own_threads, std::string& failure) {
    std::vector<std::string> errors;
    PyThreadState* const state = PyEval_SaveThread();
    try {
        errors = club.execute(part, is_interrupted, own_threads);
    } catch (const std::exception& error) {  // no more threads, or a step within a step
        failure = error.what();
    }
    PyEval_RestoreThread(state);
    return errors;
}

inline bool execute(const char* kernel, PyObject* club, const Step* steps, int count, const TensorView* last) {
    std::string error, failure;
    size_t where = 0;
    try {
        auto& members = value_of<PythonClub>(club);
        if (members.around.get() != Py_None) call(members.around.get(), "(O)", Py_True);
        const Club::Part part = [&](int dev_idx) -> const char* {
            if (dev_idx >= count) return nullptr;  // a step with nothing to launch
            const Step& step = steps[dev_idx];
            return step.launcher->launch(step.launcher, step.args, step.device, step.stream);
        };
        if (!confirm(kernel, last, "since the call began or the launch was prepared")) return false;
        hold(last);
        const std::vector<std::string> errors = unlocked_step(members.club, part, false, failure);
        let_go(last);
        if (PyErr_Occurred()) return false;
        if (const std::string* const found = first_error(errors, where)) error = *found;
        if (error.rfind("deadlock", 0) == 0) error += others_of_deadlock(errors, where);
        if (members.around.get() != Py_None) call(members.around.get(), "(O)", Py_False);
    } catch (const Raised&) {
        return false;
    }
    if (!failure.empty()) {
        PyErr_Format(launch_error, "%s: %s", kernel, failure.c_str());
        return false;
    }
    if (error.empty()) return intact(kernel, last);
    intact(nullptr, last);
    if (PyErr_CheckSignals()) return false;
    const char* const shapes = about_shapes(error.c_str());
    PyErr_Format(shapes ? shape_error : launch_error, "%s: on device %zu: %s%s", kernel, where, shapes ? shapes : error.c_str(),
                 count > 1 ? "; discard what the step wrote, and zero the signals" : "");
    return false;
}

}  // namespace tkjit::runtime

#pragma GCC pop_options
