// Functions for rendered glue: they bind, read and check arguments, allocate outputs, and launch.
//
// A successful call allocates nothing but its outputs, and never calls a function twice for the same argument. While an
// overload is being chosen, the call is `quiet`: error messages are built only after all overloads have failed.
#pragma once

#include "glue_arguments.h"
#include "glue_tensors.h"

#include <cstddef>

namespace tkjit::glue {

// ---- launching -----------------------------------------------------------------------------------------------------

inline bool written(const Call& call, PyObject* tensor) {
    return call.prepares ? PyList_Append(call.batch->written, tensor) == 0 : call.table.written(tensor);
}
inline bool written(const Call& call, const TensorList& list) {
    for (int i = 0; i < list.count; ++i)
        if (list.items[i].object && !written(call, static_cast<PyObject*>(list.items[i].object))) return false;
    return true;
}
inline void refuse_to_prepare(const Call& call, const char* result) {
    PyErr_Format(call.table.argument_error, "%s: it returns %s, a new value on each call, so its launch cannot be prepared; call it",
                 call.kernel, result);
}

// Returns the variant's launcher for the device of `on`. On first use, Python finds the launcher in the cache or builds
// it.
inline const TkjitLauncher* launcher(Call& call, int overload, int variant, const TensorView& on) {
    if (call.batch) {
        call.batch->overload = overload;
        static const TkjitLauncher nothing{[](const TkjitLauncher*, const TkjitArg*, int32_t, void*) -> const char* { return nullptr; }};
        if (call.batch->collects) return &nothing;
    }
    const int slot = on.device_type == DeviceType::cpu ? 0 : 1 + on.device;
    if (slot < kDeviceSlots) {
        const TkjitLauncher** const known = &call.self->launchers[slot * call.self->variant_count + variant];
        if (const TkjitLauncher* const launcher = __atomic_load_n(known, __ATOMIC_ACQUIRE)) return launcher;
    }
    call.ran_code = true;
    return call.table.resolve(call.self, overload, variant, on);
}

// Finds the stream to launch on: the given one, or the current stream of the device of `on`.
inline bool find_stream(Call& call, PyObject* given, const TensorView& on, void*& stream) {
    call.follows = !given;
    if (on.device_type == DeviceType::cpu && !given) return true;
    call.ran_code |= given != nullptr;  // reading the stream's attributes may run Python code
    if (call.table.stream(call.kernel, given, on, &stream, &call.other_stream)) return true;
    if (call.quiet && !is_not_ours()) PyErr_Clear();
    return false;
}

// If the call's stream is not the current one, reports the tensors to torch's allocator, which then waits for that
// stream before it reuses their memory.
inline bool record_stream(const Call& call, PyObject* stream, const TensorView& on, std::initializer_list<PyObject*> tensors) {
    if (!call.other_stream) return true;
    for (PyObject* tensor : tensors)
        if (tensor && !call.table.record_stream(tensor, stream, on.device)) return false;
    return true;
}
inline bool record_stream(const Call& call, PyObject* stream, const TensorView& on, const TensorList& list) {
    for (int i = 0; i < list.count; ++i)
        if (!record_stream(call, stream, on, {static_cast<PyObject*>(list.items[i].object)})) return false;
    return true;
}

// Returns whether no other Python thread can run during the launch. This does not notice a C++ library's thread that
// enters Python for the first time while a kernel runs. `prev` and `next` link the interpreter's
// thread states, and are the first members of a thread state in all supported versions of Python.
inline bool is_only_thread() {
    const PyThreadState* const state = PyThreadState_Get();
    return !state->prev && !state->next;
}

inline bool launch(Call& call, const TkjitLauncher* launcher, const TkjitArg* args, size_t count, const TensorView& on, void* stream) {
    if (call.batch) return call.table.launch_later(call, launcher, args, count, on, stream);
    const char* const when = call.prepares ? "since the launch was prepared"
                                           : "while the call was being prepared, by another argument's code or by another thread";
    if (call.ran_code && !call.table.confirm(call.kernel, call.tensors, when)) return false;
    const char* lost = call.peers ? call.table.waits_on(call.peers, on.device_type == DeviceType::cpu ? -1 : on.device) : nullptr;
    const char* error = lost;
    if (!error) {
        const bool held = !is_only_thread();
        if (held) call.table.hold(call.tensors);
        PyThreadState* const state = PyEval_SaveThread();
        error = launcher->launch(launcher, args, on.device, stream);
        PyEval_RestoreThread(state);
        if (held) call.table.let_go(call.tensors);
    }
    if (call.peers) {
        lost = call.table.waits_on(call.peers, -1);
        call.table.waits_on(nullptr, -1);
    }
    const bool on_cpu = on.device_type == DeviceType::cpu;
    if (!error) return !on_cpu || call.table.intact(call.kernel, call.tensors);
    if (on_cpu) call.table.intact(nullptr, call.tensors);
    call.table.refuse_launch(call.kernel, lost ? lost : error);
    return false;
}

template <size_t Count>
bool launch(Call& call, const TkjitLauncher* launcher, const TkjitArg (&args)[Count], const TensorView& on, void* stream) {
    return launch(call, launcher, args, Count, on, stream);
}

// Packs several outputs into the overload's named tuple.
inline PyObject* named_tuple(const Call& call, int overload, std::initializer_list<Object*> values) {
    PyObject* items[kMaxOutputs];
    size_t count = 0;
    for (Object* value : values) items[count++] = value->release();
    PyObject* const type = PyTuple_GET_ITEM(call.self->result_types, overload);
    PyObject* const result = PyObject_Vectorcall(type, items, count, nullptr);
    for (size_t i = 0; i < count; ++i) Py_DECREF(items[i]);
    return result;
}

// ---- overloads -----------------------------------------------------------------------------------------------------

inline bool deprecated(Call& call, const char* text) {
    call.ran_code = true;  // warning filters and hooks may run Python code
    return call.table.deprecated(call.kernel, text);
}

struct Overload {
    PyObject* (*call)(Call& call);
    const char* text;  // the signature, for messages
    uint32_t detours;  // the problems that send a call to the operator
};

// Tries one overload. It either takes the call, rejects it, or finds that the operator has to handle it
// (`call.detour`).
inline PyObject* try_overload(Call& call, const Overload& overload) {
    constexpr uint32_t later = kWatched | kRequiresGrad;  // the operator handles these, for any overload
    call.detours = call.prepares ? 0 : call.choosing ? overload.detours & ~later : overload.detours;
    call.ignored = call.choosing ? kWatched | (overload.detours & later) : kWatched;
    call.tensors = nullptr;
    return overload.call(call);
}

// Tries each overload in order. If none takes the call, raises an error with each signature and its reason.
inline PyObject* dispatch(Call& call, const Overload* overloads, int count) {
    const auto through_operator = [&](bool choose) -> PyObject* {
        if (call.choosing) return PyLong_FromLong(-1);  // without data, the overload cannot be chosen
        return call.table.through_operator(call.self, call.args, call.nargs, call.kwnames, choose);
    };
    if (overloads[0].detours && !call.choosing && !call.prepares) {
        const uint32_t modes = call.table.modes() & overloads[0].detours;
        // autocast changes dtypes, which decide the overload, so the overload is not chosen yet
        if (modes) return through_operator(!(modes & kAutocast));
    }
    if (count == 1) {
        PyObject* const result = try_overload(call, overloads[0]);
        return call.detour ? through_operator(true) : result;
    }
    call.quiet = true;
    for (int i = 0; i < count; ++i) {
        PyObject* const result = try_overload(call, overloads[i]);
        if (call.detour) return through_operator(true);
        if (result || call.decided || PyErr_Occurred()) return result;
    }
    call.quiet = false;
    call.table.refuse_overloads(call, overloads, count);
    return nullptr;
}

// ---- the module ----------------------------------------------------------------------------------------------------

// The contents of a kernel's module. Each array has one item per overload.
struct Contents {
    const char* name;
    const Overload* overloads;
    const Signature* const* signatures;
    const char* const* kinds;  // a letter for each argument; p is a parallel layout
    const Numbers* numbers;    // the numbers that a prepared launch can replace
    int count;
    int variant_count;
    PyObject* (*dispatch_over_devices)(Call& call) = nullptr;  // for a kernel over several devices
};

inline PyObject* run(Call& call, const Contents& contents) {
    if (contents.dispatch_over_devices) return contents.dispatch_over_devices(call);
    return dispatch(call, contents.overloads, contents.count);
}

template <const Contents& contents>
struct Module {
    static PyObject* call(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
        Call call = call_of(self, contents.name, args, nargsf, kwnames);
        return run(call, contents);
    }

    static constexpr GlueEntry entry{kTableVersion, call, &contents};

    static int execute(PyObject* module) {
        PyObject* const capsule = PyCapsule_New(const_cast<GlueEntry*>(&entry), kGlueCapsule, nullptr);
        if (!capsule) return -1;
        const int failed = PyModule_AddObjectRef(module, "entry", capsule);
        Py_DECREF(capsule);
        return failed;
    }

    static PyModuleDef* definition() {
        static PyModuleDef_Slot slots[] = {
            {Py_mod_exec, reinterpret_cast<void*>(execute)},
            TKJIT_NEEDS_NO_GIL
            {0, nullptr},
        };
        static PyModuleDef definition = {PyModuleDef_HEAD_INIT, contents.name, nullptr, 0, nullptr, slots};
        return &definition;
    }
};

}  // namespace tkjit::glue

// Ends each rendered file.
#define TKJIT_GLUE_MODULE(name, contents) TKJIT_MODULE(name, *tkjit::glue::Module<contents>::definition())
