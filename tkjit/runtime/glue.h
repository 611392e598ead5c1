// Functions for generated glue: bind, read and check arguments, allocate outputs, launch.
//
// On the path of a call that succeeds nothing is allocated but outputs, and no function is called twice for an
// argument. During the search for an overload a call is `quiet`: it builds error messages only after all overloads have
// failed.
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
    PyErr_Format(call.table.argument_error, "%s: it returns %s, another one each time, so that no launch is prepared; call it",
                 call.kernel, result);
}

// The variant's launcher for the device of `on`: remembered, found in the cache, or built.
inline TkjitLaunch launcher(Call& call, int overload, int variant, const TensorView& on) {
    if (call.batch) {
        call.batch->overload = overload;
        if (call.batch->collects) return [](const TkjitArg*, int32_t, void*) -> const char* { return nullptr; };
    }
    const int slot = on.device_type == DeviceType::cpu ? 0 : 1 + on.device;
    if (slot < kDeviceSlots) {
        const auto& known = call.self->launchers[slot * call.self->variant_count + variant];
        if (const TkjitLaunch launch = known.load(std::memory_order_acquire)) return launch;
    }
    call.ran_code = true;
    return call.table.resolve(call.self, overload, variant, on);
}

// The stream to launch on: the given one, or the current one of the device of `on`.
inline bool find_stream(Call& call, PyObject* given, const TensorView& on, void*& stream) {
    call.follows = !given;
    if (on.device_type == DeviceType::cpu && !given) return true;
    call.ran_code |= given != nullptr;  // its attributes
    if (call.table.stream(call.kernel, given, on, &stream, &call.other_stream)) return true;
    if (call.quiet && !is_not_ours()) PyErr_Clear();
    return false;
}

// Memory that a stream other than the current one uses must not be given to another tensor before it is done.
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

// A launch that is made later, with what it uses.
inline bool launch_later(Call& call, TkjitLaunch launcher, const TkjitArg* args, size_t count, const TensorView& on, void* stream) {
    auto* const kept = call.values.make<TkjitArg>(count);
    if (!kept) return false;
    std::memcpy(kept, args, count * sizeof *args);
    call.batch->steps[call.batch->count++] = {launcher, kept, on.device, stream};
    for (; call.tensors; call.tensors = call.tensors->before) {  // which lie on the stack of this device's part
        auto* const tensor = call.values.make<TensorView>(1);
        if (!tensor) return false;
        *tensor = *call.tensors;
        tensor->before = call.batch->tensors;
        call.batch->tensors = tensor;
    }
    return true;
}

// A thread that enters Python for the first time while a kernel runs is the exception: one of a C++ library's. The state's
// first two members are its neighbours in the interpreter's list in all versions of Python that are supported.
inline bool is_only_thread() {
    const PyThreadState* const state = PyThreadState_Get();
    return !state->prev && !state->next;
}

inline bool launch(Call& call, TkjitLaunch launcher, const TkjitArg* args, size_t count, const TensorView& on, void* stream) {
    if (call.batch) return launch_later(call, launcher, args, count, on, stream);
    const char* const when = call.prepares ? "since the launch was prepared"
                                           : "while the call was being prepared, by code of another argument's or by another thread";
    if (call.ran_code && !call.table.confirm(call.kernel, call.tensors, when)) return false;
    const char* lost = call.peers ? call.table.waits_for(call.peers, on.device_type == DeviceType::cpu ? -1 : on.device) : nullptr;
    const char* error = lost;
    if (!error) {
        const bool held = !is_only_thread();
        if (held) call.table.hold(call.tensors);
        PyThreadState* const state = PyEval_SaveThread();
        error = launcher(args, on.device, stream);
        PyEval_RestoreThread(state);
        if (held) call.table.let_go(call.tensors);
    }
    if (call.peers) {
        lost = call.table.waits_for(call.peers, -1);
        call.table.waits_for(nullptr, -1);
    }
    const bool on_cpu = on.device_type == DeviceType::cpu;
    if (!error) return !on_cpu || call.table.intact(call.kernel, call.tensors);
    if (on_cpu) call.table.intact(nullptr, call.tensors);
    if (PyErr_Occurred() || PyErr_CheckSignals()) return false;  // of a signal that came while the simulator ran
    if (lost) error = lost;
    const char* const shapes = about_shapes(error);
    PyErr_Format(shapes ? call.table.shape_error : call.table.launch_error, "%s: %s", call.kernel, shapes ? shapes : error);
    return false;
}

template <size_t Count>
bool launch(Call& call, TkjitLaunch launcher, const TkjitArg (&args)[Count], const TensorView& on, void* stream) {
    return launch(call, launcher, args, Count, on, stream);
}

// Several outputs as the overload's named tuple.
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
    call.ran_code = true;  // a filter's, or who shows warnings
    return call.table.deprecated(call.kernel, text);
}

struct Overload {
    PyObject* (*call)(Call& call);
    const char* text;  // the signature, as a message shows it
    uint32_t detours;  // what makes a call one of the operator's
};

// Tries each overload in order; when none takes the call, raises with every signature and why it was refused.
inline PyObject* dispatch(Call& call, const Overload* overloads, int count) {
    const auto through_operator = [&](bool choose) -> PyObject* {
        if (call.choosing) return PyLong_FromLong(-1);  // there is no data to choose by
        return call.table.through_operator(call.self, call.args, call.nargs, call.kwnames, choose);
    };
    if (overloads[0].detours && !call.choosing && !call.prepares) {
        const uint32_t modes = call.table.modes() & overloads[0].detours;
        if (modes) return through_operator(!(modes & kAutocast));  // it has yet to cast what overloads are chosen by
    }
    const auto begin = [&](const Overload& overload) {
        constexpr uint32_t later = kWatched | kRequiresGrad;  // the operator deals with it, whichever overload it is
        call.detours = call.prepares ? 0 : call.choosing ? overload.detours & ~later : overload.detours;
        call.ignored = call.choosing ? kWatched | (overload.detours & later) : kWatched;
        call.tensors = nullptr;
        return overload.call(call);
    };
    if (count == 1) {
        PyObject* const result = begin(overloads[0]);
        return call.detour ? through_operator(true) : result;
    }
    call.quiet = true;
    for (int i = 0; i < count; ++i) {
        PyObject* const result = begin(overloads[i]);
        if (call.detour) return through_operator(true);
        if (result || call.decided || PyErr_Occurred()) return result;
    }
    call.quiet = false;
    PyObject* cause = nullptr;  // what the hooks of an argument raised
    PyObject* message = PyUnicode_FromFormat("%s: no overload takes these arguments:", call.kernel);
    for (int i = 0; i < count && message; ++i) {
        begin(overloads[i]);
        PyObject *type, *value, *traceback;
        PyErr_Fetch(&type, &value, &traceback);
        PyErr_NormalizeException(&type, &value, &traceback);
        if (value && !PyErr_GivenExceptionMatches(value, PyExc_Exception)) {  // Ctrl-C, while the reasons were written
            Py_DECREF(message);
            Py_XDECREF(cause);
            PyErr_Restore(type, value, traceback);
            return nullptr;
        }
        if (value && !cause) cause = PyException_GetCause(value);
        PyObject* const longer = PyUnicode_FromFormat("%U\n  %s\n    %S", message, overloads[i].text, value ? value : Py_None);
        Py_DECREF(message);
        message = longer;
        Py_XDECREF(type);
        Py_XDECREF(value);
        Py_XDECREF(traceback);
    }
    PyObject* const error = message ? PyObject_CallOneArg(call.table.argument_error, message) : nullptr;
    if (error && cause) PyException_SetCause(error, Py_NewRef(cause));
    if (error) PyErr_SetObject(call.table.argument_error, error);
    Py_XDECREF(error);
    Py_XDECREF(cause);
    Py_XDECREF(message);
    return nullptr;
}

// ---- looking at a call ---------------------------------------------------------------------------------------------

inline PyObject* shown(const int64_t* numbers, int count) {
    PyObject* const tuple = PyTuple_New(count);
    for (int i = 0; tuple && i < count; ++i) PyTuple_SET_ITEM(tuple, i, PyLong_FromLongLong(numbers[i]));
    return tuple;
}

// An argument as Python looks at it: (data or number, as a float, extents, strides, dtype, whether it was given, the pointers
// of a parallel layout, its multicast pointer, its device's index). Only a strided layout's strides mean anything.
inline PyObject* shown(const TkjitArg& arg, bool parallel) {
    const int rank = arg.present ? arg.rank : 0;
    PyObject* const extents = shown(arg.extents, rank);
    PyObject* const strides = shown(arg.strides, rank);
    if (!parallel || !arg.present)
        return Py_BuildValue("KdNNiiOKi", static_cast<unsigned long long>(arg.integer), arg.real, extents, strides, arg.dtype,
                             arg.present, Py_None, 0ull, 0);
    const auto& layout = *static_cast<const TkjitParallel*>(arg.data);
    PyObject* const pointers = PyTuple_New(layout.count);
    if (!pointers) return nullptr;
    for (int i = 0; i < layout.count; ++i) PyTuple_SET_ITEM(pointers, i, PyLong_FromVoidPtr(layout.data[i]));
    return Py_BuildValue("KdNNiiNKi", 0ull, 0.0, extents, strides, arg.dtype, arg.present, pointers,
                         reinterpret_cast<unsigned long long>(layout.multicast), layout.dev_idx);
}

// What the launches of a call would pass, with its result, which holds its outputs, and its scratch. Takes the result over.
// `kind` has a letter for each argument.
template <class Launches>
PyObject* shown(const Launches& launches, PyObject* result, const char* kind) {
    if (!result) return nullptr;
    PyObject* const steps = PyList_New(0);
    for (int i = 0; steps && i < launches.count; ++i) {
        PyObject* const step = PyList_New(0);
        for (size_t k = 0; step && kind[k]; ++k) {
            PyObject* const item = shown(launches.steps[i].args[k], kind[k] == 'p');
            if (!item || PyList_Append(step, item) != 0) PyErr_Clear();
            Py_XDECREF(item);
        }
        if (!step || PyList_Append(steps, step) != 0) PyErr_Clear();
        Py_XDECREF(step);
    }
    return Py_BuildValue("iNNO", launches.overload, result, steps, launches.held ? launches.held : Py_None);
}

// ---- prepared launches ---------------------------------------------------------------------------------------------

inline bool record_stream(const Call& call, const Prepared& prepared, const Step& step) {
    PyObject* const handle = PyLong_FromVoidPtr(step.stream);
    bool ok = handle;
    for (PyObject* const list : {prepared.written, prepared.held})
        for (Py_ssize_t i = 0; ok && list && i < PyList_GET_SIZE(list); ++i)
            ok = call.table.record_stream(PyList_GET_ITEM(list, i), handle, step.device);
    Py_XDECREF(handle);
    return ok;
}

inline bool set_number(const Call& call, const Number& number, PyObject* given, TkjitArg& arg) {
    if (given == Py_None && number.nullable) {
        set_absent(arg);
        return true;
    }
    double real = 0;
    int64_t integer = 0;
    bool truth = false;
    switch (number.kind) {
        case 'd': return read(call, number.name, given, real) && (set(arg, real), true);
        case 'i': return read(call, number.name, given, integer, number.low, number.high) && (set(arg, integer), true);
        default: return read(call, number.name, given, truth) && (set(arg, truth), true);
    }
}

inline bool set_numbers(const Call& call, const Numbers& numbers, PyObject* const* given, PyObject* names, TkjitArg* args) {
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(names); ++k) {
        PyObject* const name = PyTuple_GET_ITEM(names, k);
        const Number* found = nullptr;
        for (int i = 0; i < numbers.count && !found; ++i)
            if (numbers.items[i].interned == name || PyUnicode_Compare(numbers.items[i].interned, name) == 0) found = &numbers.items[i];
        if (!found) {
            PyErr_Format(call.table.argument_error,
                         "%s: a prepared launch takes no %U%s%s: what decides shapes, a variant or memory is fixed; prepare another",
                         call.kernel, name, numbers.count ? "; it takes " : "", numbers.text);
            return false;
        }
        if (!set_number(call, *found, given[k], args[found->position])) return false;
    }
    return true;
}

// ---- the module ----------------------------------------------------------------------------------------------------

inline int add_entry(PyObject* module, const GlueEntry& entry) {
    PyObject* const capsule = PyCapsule_New(const_cast<GlueEntry*>(&entry), kGlueCapsule, nullptr);
    if (!capsule) return -1;
    const int failed = PyModule_AddObjectRef(module, "entry", capsule);
    Py_DECREF(capsule);
    return failed;
}

// All that a module has of its own: one overload after the other.
struct Contents {
    const char* name;
    const Overload* overloads;
    const Signature* const* signatures;
    const char* const* kinds;  // a letter for each argument: p for a parallel layout
    const Numbers* numbers;    // what a prepared launch may be given anew
    int count;
    int variant_count;
    PyObject* (*dispatch_over_devices)(Call& call) = nullptr;  // of a kernel over several
};

template <const Contents& contents>
struct Module {
    static PyObject* run(Call& call) {
        if (contents.dispatch_over_devices) return contents.dispatch_over_devices(call);
        return dispatch(call, contents.overloads, contents.count);
    }

    static PyObject* call(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
        Call call = call_of(self, contents.name, args, nargsf, kwnames);
        return run(call);
    }

    static PyObject* collect(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
        Call call = call_of(self, contents.name, args, nargsf, kwnames);
        Step steps[contents.dispatch_over_devices ? kMaxParallelDevices : 1];
        Batch batch(steps, true);
        call.batch = &batch;
        PyObject* const result = run(call);
        return shown(batch, result, contents.kinds[batch.overload]);
    }

    static bool prepare(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* kwnames, Prepared* prepared) {
        Call call = call_of(self, contents.name, args, nargsf, kwnames);
        Batch batch(prepared->steps);
        call.batch = &batch;
        call.prepares = true;
        if (!(batch.written = PyList_New(0)) || !(prepared->result = run(call))) return false;
        prepared->count = batch.count;
        prepared->overload = batch.overload;
        prepared->follows = call.follows;
        prepared->tensors = batch.tensors;
        prepared->peers = call.peers;
        prepared->club = batch.club;
        std::swap(prepared->written, batch.written);
        std::swap(prepared->held, batch.held);
        prepared->values.take(call.values);
        return true;
    }

    static PyObject* launch_again(PyObject* self, const Prepared* prepared, PyObject* const* numbers, PyObject* kwnames) {
        if (!prepared->count) return Py_NewRef(prepared->result);  // there was nothing to write
        Call call = call_of(self, contents.name, nullptr, 0, nullptr);
        call.prepares = call.ran_code = true;
        call.tensors = prepared->tensors;
        call.peers = prepared->peers;
        const size_t count = std::strlen(contents.kinds[prepared->overload]);
        Step steps[contents.dispatch_over_devices ? kMaxParallelDevices : 1];
        for (int i = 0; i < prepared->count; ++i) {
            Step& step = steps[i] = prepared->steps[i];
            if (!kwnames) continue;
            auto* const own = call.values.make<TkjitArg>(count);
            if (!own) return nullptr;
            std::memcpy(own, step.args, count * sizeof *own);
            if (!set_numbers(call, contents.numbers[prepared->overload], numbers, kwnames, own)) return nullptr;
            step.args = own;
        }
        const TensorView& on = *prepared->tensors;
        if (prepared->club) {
            for (int i = 0; i < prepared->count && on.device_type != DeviceType::cpu; ++i) {
                TensorView there;
                there.device_type = on.device_type;
                there.device = steps[i].device;
                if (!find_stream(call, call.table.club_stream(prepared->club, i), there, steps[i].stream)) return nullptr;
            }
            if (!call.table.execute(call.kernel, prepared->club, steps, prepared->count, call.tensors)) return nullptr;
        } else {
            if (prepared->follows && on.device_type != DeviceType::cpu) {
                if (!find_stream(call, nullptr, on, steps[0].stream)) return nullptr;
                // what was allocated for another stream must not go back to it too early
                if (steps[0].stream != prepared->steps[0].stream && !record_stream(call, *prepared, steps[0])) return nullptr;
            }
            if (!launch(call, steps[0].launch, steps[0].args, count, on, steps[0].stream)) return nullptr;
        }
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(prepared->written); ++i)
            if (!call.table.written(PyList_GET_ITEM(prepared->written, i))) return nullptr;
        return Py_NewRef(prepared->result);
    }

    static PyObject* show(const Prepared* prepared) {
        return shown(*prepared, Py_NewRef(prepared->result), contents.kinds[prepared->overload]);
    }

    static PyObject* call_overload(PyObject* self, int overload, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
        Call call = call_of(self, contents.name, args, nargsf, kwnames);
        return contents.overloads[overload].call(call);
    }

    static PyObject* choose(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
        Call call = call_of(self, contents.name, args, nargsf, kwnames);
        call.choosing = true;
        return dispatch(call, contents.overloads, contents.count);
    }

    static constexpr GlueEntry entry{kTableVersion, call,         call_overload, choose,
                                     collect,       prepare,      launch_again,  show, contents.variant_count};

    static int execute(PyObject* module) {
        for (int i = 0; i < contents.count; ++i)
            if (!intern_names(*contents.signatures[i]) || !intern_names(contents.numbers[i])) return -1;
        return add_entry(module, entry);
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

// The end of a rendered file.
#define TKJIT_GLUE_MODULE(name, contents) TKJIT_MODULE(name, *tkjit::glue::Module<contents>::definition())
